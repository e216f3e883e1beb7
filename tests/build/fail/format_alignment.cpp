// A block's alignment is 1, since blocks are read in place from any byte of a file.
// expect: a format needs a constant name and block_size, and a trivially copyable type block whose alignment is 1
#include <tern/format/formats.hpp>

struct wide {
    static constexpr std::string_view name = "wide";
    static constexpr std::size_t block_size = 4;
#ifdef TERN_PASS
    struct block { unsigned char q[16]; };
#else
    struct block { float q[4]; };
#endif
    static void decode(const block& b, float* out) noexcept {
        for (int i = 0; i < 4; ++i) out[i] = static_cast<float>(b.q[i]);
    }
};

int main() { return static_cast<int>(tern::formats<tern::f32, wide>::size) - 2; }
