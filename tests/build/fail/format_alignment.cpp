// A block's alignment is 1, since blocks are read in place from any byte of a file; the error names the requirement.
// expect: alignof ?\(typename .*block.* ?== ?1
#include <tern/format/format.hpp>

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

int main() { return tern::info_of<wide>.name.empty(); }
