// What the tests of integer products share: rows of any format, quantized tokens, and the exact product of the two.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support.hpp"
#include <tern/format/formats.hpp>
#include <tern/kernel/linear_q8.hpp>

namespace tern::test {

/// A product in 8 bits, with everything that it reads.
template <format F> struct q8_case {
    std::size_t rows, cols, tokens;
    std::vector<typename F::block> w;
    std::vector<float> x;
    std::vector<kernel::q8_block> codes;
    std::vector<float> bias;

    q8_case(std::size_t rows, std::size_t parts, std::size_t tokens, std::uint64_t seed = 1)
        : rows(rows), cols(parts * 32 / F::block_size * F::block_size), tokens(tokens), w(rows * cols / F::block_size) {
        numbers from{seed + rows * 131 + parts * 17 + tokens};
        for (auto& block : w) {
            const auto values = from(F::block_size, -1, 1);
            F::encode(values.data(), block);
        }
        x = from(tokens * cols, -2, 2);
        bias = from(rows, -1, 1);
        quantize();
    }

    void quantize() {
        codes.resize(tokens * kernel::q8_blocks(cols));
        run<kernel::quantize_q8>({x.data(), cols, cols, tokens, codes.data()});
    }

    kernel::linear_q8::args args(std::vector<float>& y, bool biased = false) const {
        return {bytes_of(w.data()), rows, cols, codes.data(), tokens, y.data(), rows, biased ? bias.data() : nullptr};
    }

    std::vector<float> reference(bool biased = false) const {
        std::vector<float> y(rows * tokens);
        kernel::linear_q8::reference<F>(args(y, biased), 0, rows);
        return y;
    }

    /// The exact product of row r and token t, and the sizes of its terms added up.
    std::pair<double, double> exact(std::size_t r, std::size_t t) const {
        double sum = 0, size = 0;
        for (std::size_t p = 0; p < cols / 32; ++p) {
            kernel::integer_part part;
            kernel::integer_form<F>::read(w.data() + r * (cols / F::block_size), p, part);
            const kernel::q8_block& b = codes[t * kernel::q8_blocks(cols) + p / 8];
            float plain[F::block_size];
            F::decode(w[(r * cols + p * 32) / F::block_size], plain);
            for (std::size_t i = 0; i < 32; ++i) {
                const double a = double(b.scale[p % 8]) * b.codes[p % 8 * 32 + i];
                const auto v = double(plain[p * 32 % F::block_size + i]);
                sum += v * a;
                size += (std::abs(v) + 2 * std::abs(double(part.low)) *
                                           (kernel::integer_form<F>::lows == 2 ? part.low_code[i / 16] : 1)) *
                        std::abs(a);
            }
        }
        return {sum, size};
    }
};

/// What linear_q8 promises.
inline double q8_error(std::size_t cols) { return (double(cols) / 128 + 8) * 0x1p-24; }

/// Calls f for every format with an integer form.
template <class Function> void each_integer_format(Function f) {
    all_formats::for_each([&]<class F>(std::type_identity<F> id) {
        if constexpr (kernel::has_integer_form<F>) f(id);
    });
}

} // namespace tern::test
