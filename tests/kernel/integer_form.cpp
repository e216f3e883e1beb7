#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support.hpp"
#include <tern/format/formats.hpp>
#include <tern/kernel/integer_form.hpp>

using namespace tern;
using namespace tern::test;
using kernel::integer_form;
using kernel::integer_part;

static_assert(kernel::has_integer_form<q4_k> && kernel::has_integer_form<mxfp4>);
static_assert(!kernel::has_integer_form<f32> && !kernel::has_integer_form<bf16> && !kernel::has_integer_form<halves>);

TEST_CASE("kernel/integer_form: any bytes stand for the numbers that decode gives") {
    std::size_t formats = 0;
    all_formats::for_each([&]<class F>(std::type_identity<F>) {
        if constexpr (kernel::has_integer_form<F>) {
            CAPTURE(F::name);
            ++formats;
            numbers from{5};
            for (int round = 0; round < 200; ++round) {
                typename F::block row[2];
                const auto raw = from.bytes(sizeof row);
                std::memcpy(static_cast<void*>(row), raw.data(), sizeof row);
                float plain[2 * F::block_size];
                F::decode(row[0], plain);
                F::decode(row[1], plain + F::block_size);
                for (std::size_t part = 0; part < 2 * F::block_size / 32; ++part) {
                    integer_part p;
                    integer_form<F>::read(row, part, p);
                    for (std::size_t i = 0; i < 32; ++i) {
                        const int low = integer_form<F>::lows == 0   ? 0
                                        : integer_form<F>::lows == 1 ? 1
                                                                     : p.low_code[i / 16];
                        const double value = double(p.scale) * p.code[i] - double(p.low) * low;
                        const double size = std::abs(double(p.scale) * p.code[i]) + std::abs(double(p.low) * low);
                        const auto decoded = double(plain[part * 32 + i]);
                        if (std::isnan(decoded))
                            REQUIRE(std::isnan(value));
                        else if (std::isinf(decoded)) // beyond the range of f32, or made of an infinite scale
                            REQUIRE(!(std::abs(value) < 3.4e38));
                        else
                            REQUIRE(std::abs(value - decoded) <= 1e-7 * size);
                        REQUIRE(std::abs(p.code[i]) < 1 << 16);
                    }
                }
            }
        }
    });
    CHECK(formats == 12);
}

TEST_CASE("kernel/integer_form: q4_0 codes in order, with a scale of 1") {
    q4_0::block b{};
    b.d.set(f32_to_f16(1));
    for (int j = 0; j < 16; ++j) b.qs[j] = static_cast<unsigned char>(j | ((15 - j) << 4));
    integer_part p;
    integer_form<q4_0>::read(&b, 0, p);
    CHECK(p.scale == 1);
    for (int j = 0; j < 16; ++j) {
        CHECK(p.code[j] == j - 8);
        CHECK(p.code[j + 16] == 7 - j);
    }
}
