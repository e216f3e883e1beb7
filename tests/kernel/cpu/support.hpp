// What the tests of the fast kernels share.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "../support.hpp"
#include <tern/format/formats.hpp>
#include <tern/kernel/cpu/features.hpp>

namespace tern::test {

/// False, and a line that says so, where this processor has no AVX2.
inline bool has_avx2() {
    const bool has = kernel::cpu::available_instructions() == kernel::cpu::instruction_set::avx2;
    if (!has) std::printf("skipped: no AVX2\n");
    return has;
}

/// The same bits, or both NaN.
inline bool same(float a, float b) { return (a != a && b != b) || std::memcmp(&a, &b, sizeof a) == 0; }

inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!same(a[i], b[i])) return false;
    return true;
}

/// `count` blocks that stand for numbers between low and high; any bytes for a format that cannot encode.
template <format F>
std::vector<typename F::block> weights(numbers& from, std::size_t count, float low = -1, float high = 1) {
    std::vector<typename F::block> out(count);
    for (auto& block : out) {
        if constexpr (format_encodable<F>) {
            const auto values = from(F::block_size, low, high);
            F::encode(values.data(), block);
        } else {
            const auto bytes = from.bytes(sizeof block);
            std::memcpy(&block, bytes.data(), sizeof block);
        }
    }
    return out;
}

template <format F> std::vector<float> decoded(const std::vector<typename F::block>& blocks) {
    std::vector<float> out(blocks.size() * F::block_size);
    for (std::size_t b = 0; b < blocks.size(); ++b) F::decode(blocks[b], out.data() + b * F::block_size);
    return out;
}

/// Calls f for every format that tern brings and for a user's own.
template <class Function> void each_format(Function f) {
    all_formats::for_each(f);
    f(std::type_identity<halves>{});
}

} // namespace tern::test
