#include <doctest/doctest.h>

#include <memory>

#include "../q8_support.hpp"
#include "support.hpp"
#include <tern/kernel/cpu/codes_k.hpp>
#include <tern/kernel/cpu/panel_product.hpp>

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::cpu::avx2_form;
using kernel::cpu::code_kind;
using kernel::cpu::panel;

namespace {

template <class F, int Steps, int Tokens> void compare() {
    using form = avx2_form<F>;
    const q8_case<F> c(8, 24, Tokens);
    const auto panels = std::make_unique<panel<form::kind>[]>(3);
    kernel::cpu::pack_panels<F>(c.w.data(), c.cols / F::block_size, 0, 3, panels.get());
    alignas(32) float chains[8 * Tokens * 8] = {};
    kernel::cpu::panel_args<form::kind> args{.panels = panels.get(),
                                             .group_stride = 3,
                                             .count = 3,
                                             .x = c.codes.data(),
                                             .token_stride = 3,
                                             .chains = chains};
    if constexpr (form::kind == code_kind::small) args.offset = form::offset;
    kernel::cpu::multiply_panels<form::lows, Steps, 1, Tokens>(args);
    const std::vector<float> y = c.reference();
    const auto at = [&](std::size_t chain, std::size_t i) { return chains[chain * Tokens * 8 + i]; };
    for (std::size_t i = 0; i < 8 * Tokens; ++i)
        REQUIRE(same(((at(0, i) + at(1, i)) + (at(2, i) + at(3, i))) + ((at(4, i) + at(5, i)) + (at(6, i) + at(7, i))),
                     y[i]));
}

} // namespace

TEST_CASE("kernel/cpu/panel_product: chains of each kind of codes and number of tokens add up to the reference") {
    if (!has_avx2()) return;
    compare<q4_0, 8, 1>();
    compare<q4_0, 4, 2>(); // fewer steps than would fit: the same
    compare<q4_k, 8, 4>();
    compare<q5_0, 4, 4>();
    compare<q6_k, 2, 4>();
    compare<q6_k, 2, 1>();
    compare<q3_k, 4, 2>();
    compare<q2_k, 4, 4>();
    compare<q8_0, 0, 4>();
    compare<iq4_nl, 0, 1>();
}

#endif
