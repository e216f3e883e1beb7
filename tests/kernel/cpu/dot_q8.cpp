#include <doctest/doctest.h>

#include <memory>

#include "../q8_support.hpp"
#include "support.hpp"
#include <tern/kernel/cpu/codes_k.hpp>
#include <tern/kernel/cpu/dot_q8.hpp>

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;
using kernel::cpu::dot_q8_avx2;

namespace {

/// Row r of a case times token t.
template <format F> float dot(const q8_case<F>& c, std::size_t r, std::size_t t) {
    const std::size_t blocks = c.cols / F::block_size;
    float y = 7;
    dot_q8_avx2<F>(c.w.data() + r * blocks, 0, 1, blocks, c.w.data() + c.w.size(),
                   c.codes.data() + t * kernel::q8_blocks(c.cols), &y);
    return y;
}

} // namespace

TEST_CASE("kernel/cpu/dot_q8: every format and length, the bits of the reference") {
    if (!has_avx2()) return;
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        for (const std::size_t parts : {0, 1, 7, 8, 9, 16, 31, 200}) {
            const q8_case<F> c(2, parts, 2);
            const std::vector<float> y = c.reference();
            for (std::size_t i = 0; i < 4; ++i) REQUIRE(same(dot(c, i % 2, i / 2), y[i]));
        }
    });
}

TEST_CASE("kernel/cpu/dot_q8: four rows that lie apart, each as if alone") {
    if (!has_avx2()) return;
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        const q8_case<F> c(11, 24, 1);
        const std::size_t blocks = c.cols / F::block_size;
        const std::vector<float> expected = c.reference();
        float y[4] = {7, 7, 7, 7};
        dot_q8_avx2<F>(c.w.data() + blocks, 3 * blocks, 4, blocks, c.w.data() + c.w.size(), c.codes.data(), y);
        for (std::size_t i = 0; i < 4; ++i) REQUIRE(same(y[i], expected[1 + 3 * i]));
    });
}

TEST_CASE(
    "kernel/cpu/dot_q8: what lies behind a row is read and changes nothing, and nothing is read past the weights") {
    if (!has_avx2()) return;
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        if (F::block_size != 32) return;
        q8_case<F> c(2, 9, 1);
        const std::vector<float> expected = c.reference();
        CHECK(same(dot(c, 0, 0), expected[0]));
        std::memset(static_cast<void*>(c.w.data() + 9), 0xFF, 9 * sizeof c.w[0]); // NaN as a scale
        CHECK(same(dot(c, 0, 0), expected[0]));
        float y = 7;
        const auto alone = std::make_unique<typename F::block[]>(9);
        std::memcpy(static_cast<void*>(alone.get()), c.w.data(), 9 * sizeof c.w[0]);
        dot_q8_avx2<F>(alone.get(), 0, 1, 9, alone.get() + 9, c.codes.data(), &y);
        CHECK(same(y, expected[0]));
    });
}

TEST_CASE("kernel/cpu/dot_q8: any bytes as weights, any bits as activations") {
    if (!has_avx2()) return;
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        numbers from{21};
        for (int round = 0; round < 40; ++round) {
            q8_case<F> c(2, 16, 2);
            const auto raw = from.bytes(c.w.size() * sizeof c.w[0]);
            std::memcpy(static_cast<void*>(c.w.data()), raw.data(), raw.size());
            if (round % 2 == 0) {
                for (float& v : c.x) v = std::bit_cast<float>(from.bits() << 1);
                c.quantize();
            }
            const std::vector<float> y = c.reference();
            for (std::size_t i = 0; i < 4; ++i) REQUIRE(same(dot(c, i % 2, i / 2), y[i]));
        }
    });
}

TEST_CASE("kernel/cpu/dot_q8: the largest codes and activations do not overflow") {
    if (!has_avx2()) return;
    each_integer_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        for (const unsigned char byte : {0x00, 0x0F, 0x7F, 0x80, 0xF0, 0xFF})
            for (const float sign : {1.0f, -1.0f}) {
                q8_case<F> c(1, 8, 1);
                std::memset(static_cast<void*>(c.w.data()), byte, c.w.size() * sizeof c.w[0]);
                for (auto& block : c.w) // finite scales
                    if constexpr (requires { block.d; }) block.d.set(f32_to_f16(0.5f));
                for (std::size_t i = 0; i < c.x.size(); ++i) c.x[i] = sign * (i % 3 == 2 ? -1.0f : 1.0f);
                c.quantize();
                REQUIRE(same(dot(c, 0, 0), c.reference()[0]));
                for (float& v : c.x) v = sign;
                c.quantize();
                REQUIRE(same(dot(c, 0, 0), c.reference()[0]));
            }
    });
}

#endif
