#include <doctest/doctest.h>

#include <memory>

#include "../q8_support.hpp"
#include "support.hpp"
#include <tern/kernel/cpu/codes_k.hpp>
#include <tern/kernel/cpu/panel_q8.hpp>

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::cpu::avx2_form;
using kernel::cpu::code_kind;
using kernel::cpu::panel;

namespace {

/// The code of column i of a part of row r, as the panel holds it.
template <class F> int code_in(const panel<avx2_form<F>::kind>& p, std::size_t part, std::size_t r, std::size_t i) {
    using form = avx2_form<F>;
    if constexpr (form::kind == code_kind::wide) {
        return p.codes[part][i / 2][2 * r + i % 2];
    } else {
        const int code = p.codes[part][i / 4][4 * r + i % 4] - form::offset;
        if constexpr (form::kind == code_kind::scaled) {
            REQUIRE(p.factor[part][i / 16][2 * r] == p.factor[part][i / 16][2 * r + 1]);
            REQUIRE(p.raised[part][2 * r + i / 16] == form::offset * p.factor[part][i / 16][2 * r]);
            return code * p.factor[part][i / 16][2 * r];
        } else {
            return code;
        }
    }
}

template <class F>
void check_scales(const panel<avx2_form<F>::kind>& p, std::size_t part, std::size_t r,
                  const kernel::integer_part& want) {
    using form = avx2_form<F>;
    if constexpr (form::kind == code_kind::scaled) {
        REQUIRE(same(p.scale[r], want.scale));
        if constexpr (form::lows != 0) {
            REQUIRE(same(p.low[r], want.low));
            for (std::size_t h = 0; h < 2; ++h) REQUIRE(p.lows[part][2 * r + h] == want.low_code[h]);
        }
    } else {
        REQUIRE(same(p.scale[part][r], want.scale));
        if constexpr (form::lows != 0) REQUIRE(same(p.low[part][r], want.low));
    }
}

} // namespace

TEST_CASE("kernel/cpu/panel_q8: eight rows side by side hold what integer_form reads; past their end there is zero") {
    if (!has_avx2()) return;
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        const std::size_t parts = F::block_size == 32 ? 21 : 24;
        const q8_case<F> c(8, parts, 1);
        const auto panels = std::make_unique<panel<avx2_form<F>::kind>[]>(2);
        // The last two of three.
        kernel::cpu::pack_panels<F>(c.w.data(), c.cols / F::block_size, 256 / F::block_size, 2, panels.get());
        for (std::size_t part = 8; part < 24; ++part)
            for (std::size_t r = 0; r < 8; ++r) {
                const auto& p = panels[part / 8 - 1];
                kernel::integer_part want;
                if (part < parts) {
                    kernel::integer_form<F>::read(c.w.data() + r * (c.cols / F::block_size), part, want);
                    for (std::size_t i = 0; i < 32; ++i) REQUIRE(code_in<F>(p, part % 8, r, i) == want.code[i]);
                    check_scales<F>(p, part % 8, r, want);
                } else if constexpr (avx2_form<F>::kind != code_kind::scaled) {
                    REQUIRE(p.scale[part % 8][r] < 1e-37f);
                }
            }
    });
}

#endif
