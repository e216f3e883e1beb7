// Every format's product on the emulated device against the plain one, over odd shapes; q8 bit for bit.
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/format/formats.hpp>
#include <tern/kernel/cuda/linear.cuh>

#include <format/own_format.hpp>
#include <kernel/cuda/support.hpp>

using cuda_test::numbers;
using cuda_test::on_device;

namespace {

template <class F> std::vector<std::byte> weights(std::size_t rows, std::size_t cols) {
    const std::vector<float> w = numbers(rows * cols, 3);
    std::vector<std::byte> bytes(rows * cols / F::block_size * sizeof(typename F::block));
    auto* blocks = reinterpret_cast<typename F::block*>(bytes.data());
    for (std::size_t i = 0; i < rows * cols / F::block_size; ++i) {
        if constexpr (tern::format_encodable<F>) {
            F::encode(w.data() + i * F::block_size, blocks[i]);
        } else {
            auto* raw = reinterpret_cast<unsigned char*>(blocks + i);
            for (std::size_t b = 0; b < sizeof(*blocks); ++b) raw[b] = static_cast<unsigned char>(i * 31 + b * 7);
        }
    }
    return bytes;
}

/// `shift` bytes past an aligned address.
template <class F> void compare(std::size_t rows, std::size_t cols, std::size_t tokens, std::size_t shift) {
    CAPTURE(std::string(F::name));
    CAPTURE(rows);
    CAPTURE(cols);
    const std::vector<std::byte> w = weights<F>(rows, cols);
    const std::vector<float> x = numbers(tokens * cols), bias = numbers(rows, 11);
    std::vector<float> want(tokens * rows);
    tern::kernel::linear::args a{w.data(), rows, cols, x.data(), cols, tokens, want.data(), rows, bias.data()};
    tern::kernel::linear::reference<F>(a, 0, rows);

    std::vector<std::byte> moved(shift);
    moved.insert(moved.end(), w.begin(), w.end());
    const on_device<std::byte> dw(moved);
    const on_device<float> dx(x), db(bias), dy(tokens * rows);
    tern::kernel::linear::args d = a;
    d.weights = dw.get() + shift, d.x = dx.get(), d.y = dy.get(), d.bias = db.get();
    tern::cuda::linear<F>(d);
    double scale = 1;
    for (const float v : want) scale = std::max(scale, std::fabs(double(v)));
    CHECK(cuda_test::worst(dy.read(), want) < scale * double(cols) * 0x1p-22);

    if constexpr (tern::cuda::has_parts<F>) {
        std::vector<tern::kernel::q8_block> q(tokens * tern::kernel::q8_blocks(cols));
        tern::kernel::quantize_q8::reference({x.data(), cols, cols, tokens, q.data()}, 0, tokens);
        tern::kernel::linear_q8::args aq{w.data(), rows, cols, q.data(), tokens, want.data(), rows, bias.data()};
        tern::kernel::linear_q8::reference<F>(aq, 0, rows);
        const on_device<tern::kernel::q8_block> dq(q);
        const on_device<float> again(tokens * rows);
        tern::kernel::linear_q8::args dqa = aq;
        dqa.weights = dw.get() + shift, dqa.x = dq.get(), dqa.y = again.get(), dqa.bias = db.get();
        tern::cuda::linear_q8<F>(dqa);
        const std::vector<float> got = again.read();
        CHECK(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0);
    }
}

template <class F> void compare_shapes() {
    const std::size_t unit = F::block_size < 32 ? 1 : F::block_size;
    compare<F>(1, unit == 1 ? 37 : unit, 1, 0);
    compare<F>(17, unit == 1 ? 264 : unit * 3, 2, 0);
    compare<F>(5, unit == 1 ? 131 : unit * 9, 1, 1);
}

} // namespace

TEST_CASE("kernel/cuda/linear: every format, odd shapes and addresses") {
    tern::cuda::emulation::configure({});
    tern::all_formats::for_each([]<class F>(std::type_identity<F>) { compare_shapes<F>(); });
    compare<own::halves>(3, 48, 2, 0);
}

TEST_CASE("kernel/cuda/linear: no tokens, and rows that do not fit") {
    tern::kernel::linear::args a{};
    a.rows = 4, a.cols = 256;
    tern::cuda::linear<tern::q4_k>(a);
    a.tokens = 1, a.cols = 100;
    CHECK_THROWS_AS(tern::cuda::linear<tern::q4_k>(a), tern::shape_error);
}
