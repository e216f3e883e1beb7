// Codes in registers, read back and compared with integer_form.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"
#include <tern/kernel/cpu/codes_k.hpp>
#include <tern/kernel/integer_form.hpp>

#if defined(__x86_64__)

namespace tern::test {

/// Eight parts as avx2_form has them, in memory.
struct stored_parts {
    std::uint8_t codes[8][32];
    std::int16_t scales[16]; // whole ones
    std::int16_t lows[16];
    float scale[8];
    float low[8];
};

template <class F, int Part>
[[gnu::target("avx2,fma,f16c")]] void store_codes(const typename F::block* b, stored_parts& out) {
    using form = kernel::cpu::avx2_form<F>;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.codes[Part]), form::template codes<Part>(b));
    if constexpr (Part < 7) store_codes<F, Part + 1>(b, out);
}

template <class F> [[gnu::target("avx2,fma,f16c")]] void store_parts(const typename F::block* b, stored_parts& out) {
    using form = kernel::cpu::avx2_form<F>;
    store_codes<F, 0>(b, out);
    if constexpr (form::kind == kernel::cpu::code_kind::scaled) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.scales), form::group_scales(b));
        if constexpr (form::lows != 0) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.lows), form::group_lows(b));
    } else {
        const kernel::cpu::part_scales s = form::scales(b);
        _mm256_storeu_ps(out.scale, s.scale);
        _mm256_storeu_ps(out.low, s.low);
    }
}

template <format F> void check_part(const typename F::block* b, const stored_parts& got, std::size_t p) {
    using form = kernel::cpu::avx2_form<F>;
    kernel::integer_part want;
    kernel::integer_form<F>::read(b, p, want);
    for (std::size_t i = 0; i < 32; ++i) {
        int code = got.codes[p][i];
        if constexpr (form::kind == kernel::cpu::code_kind::wide) {
            code = static_cast<std::int8_t>(got.codes[p][i]);
        } else {
            REQUIRE(code <= form::most);
            code -= form::offset;
        }
        if constexpr (form::kind == kernel::cpu::code_kind::scaled) code *= got.scales[2 * p + i / 16];
        REQUIRE(code == want.code[i]);
    }
    if constexpr (form::kind == kernel::cpu::code_kind::scaled) {
        if constexpr (form::lows != 0)
            for (std::size_t h = 0; h < 2; ++h) REQUIRE(got.lows[2 * p + h] == want.low_code[h]);
    } else {
        REQUIRE(same(got.scale[p], want.scale));
        if constexpr (form::lows != 0) REQUIRE(same(got.low[p], want.low));
    }
}

template <format F> void check_codes() {
    CAPTURE(F::name);
    numbers from{13};
    for (int round = 0; round < 300; ++round) {
        typename F::block b[256 / F::block_size];
        const auto raw = from.bytes(sizeof b);
        std::memcpy(static_cast<void*>(b), raw.data(), sizeof b);
        stored_parts got{};
        store_parts<F>(b, got);
        for (std::size_t p = 0; p < 8; ++p) check_part<F>(b, got, p);
    }
}

} // namespace tern::test

#endif
