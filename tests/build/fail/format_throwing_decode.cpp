// decode must be noexcept: kernels call it where nothing can catch.
// expect: a format needs static void decode\(const block&, float\*\) noexcept
#include <tern/format/formats.hpp>

#ifdef TERN_PASS
inline constexpr bool quiet = true;
#else
inline constexpr bool quiet = false;
#endif

struct loud {
    static constexpr std::string_view name = "loud";
    static constexpr std::size_t block_size = 1;
    struct block { unsigned char q[1]; };
    static void decode(const block& b, float* out) noexcept(quiet) { *out = b.q[0]; }
};

int main() { return static_cast<int>(tern::formats<loud, tern::f32>::size) - 2; }
