// The matrix instruction of tensor cores (mma.sync, sm_80 and later) on a device, and the same fragments in the
// emulation.
//
// Source of the fragments: PTX ISA, "Matrix Fragments for mma.m16n8k16", with g = lane / 4 and t = lane % 4:
//     a[0] (g, 2t..) a[1] (g + 8, 2t..) a[2] (g, 2t + 8..) a[3] (g + 8, 2t + 8..): two numbers of A [16, 16] each
//     b[0] (2t.., g) b[1] (2t + 8.., g): two numbers of B [16, 8] each, one below the other
//     d[0], d[1] (g, 2t..) d[2], d[3] (g + 8, 2t..): of D [16, 8]
#pragma once

#include <cstdint>

#include <tern/cuda/kernel.hpp>

namespace tern::cuda {

#if !defined(__CUDACC__)
namespace emulation {

struct mma_operands {
    unsigned a[4], b[2];
    float d[4];
};

/// D = A B + D for all lanes. A device does not say in which order it sums: here in f64, rounded once.
template <class Widen> void multiply_fragments(const warp_slots& slots, Widen widen) {
    const auto lane_of = [&](unsigned lane) -> const mma_operands& {
        return *static_cast<const mma_operands*>(slots.in[lane]);
    };
    if (slots.there != 0xFFFFFFFFu) throw fault(fault_kind::divergent_warp, "mma needs all lanes of a warp");
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
            double sum = double{lane_of(lane).d[i]};
            for (unsigned k = 0; k < 16; ++k) {
                const unsigned t = k % 8 / 2, upper = k / 8, shift = k % 2 * 16;
                const unsigned a = lane_of(row % 8 * 4 + t).a[upper * 2 + row / 8] >> shift;
                const unsigned b = lane_of(col * 4 + t).b[upper] >> shift;
                sum += double{widen(static_cast<std::uint16_t>(a))} * double{widen(static_cast<std::uint16_t>(b))};
            }
            static_cast<float*>(slots.out[lane])[i] = static_cast<float>(sum);
        }
}

template <bool Bfloat>
void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], std::source_location where) {
    const mma_operands mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {d[0], d[1], d[2], d[3]}};
    const warp_operation run = [](const warp_slots& slots) {
        multiply_fragments(slots, [](std::uint16_t bits) {
            return Bfloat ? __bfloat162float(__ushort_as_bfloat16(bits)) : __half2float(__ushort_as_half(bits));
        });
    };
    this_block().meet(run, 0xFFFFFFFFu, &mine, d, where);
}

} // namespace emulation

inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                             std::source_location where = std::source_location::current()) {
    emulation::mma<false>(d, a, b, where);
}
inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                              std::source_location where = std::source_location::current()) {
    emulation::mma<true>(d, a, b, where);
}
#else
/// D = A B + D, A and B binary16; all lanes of a warp call it.
__device__ inline void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// D = A B + D, A and B bfloat16.
__device__ inline void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

} // namespace tern::cuda
