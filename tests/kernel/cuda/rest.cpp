// rms_norm, rope with cache write, attention and gated on the emulated device against the plain kernels.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tern/format/plain.hpp>
#include <tern/kernel/attention.hpp>
#include <tern/kernel/cuda/attention.cuh>
#include <tern/kernel/cuda/dequantize.cuh>
#include <tern/kernel/cuda/elementwise.cuh>
#include <tern/kernel/cuda/rms_norm.cuh>
#include <tern/kernel/cuda/rope.cuh>
#include <tern/kernel/rms_norm.hpp>

#include <kernel/cuda/support.hpp>

using cuda_test::numbers;
using cuda_test::on_device;
using cuda_test::worst;
namespace kernel = tern::kernel;

TEST_CASE("kernel/cuda/rms_norm: with and without a residual") {
    tern::cuda::emulation::configure({});
    for (const std::size_t cols : {1, 31, 257, 1000})
        for (const std::size_t rows : {1, 3})
            for (const bool fused : {false, true}) {
                CAPTURE(cols);
                const std::vector<float> x = numbers(rows * cols), r = numbers(rows * cols, 5), w = numbers(cols, 9);
                std::vector<float> sum = x, want(rows * cols);
                for (std::size_t i = 0; fused && i < sum.size(); ++i) sum[i] = x[i] + r[i];
                kernel::rms_norm::reference<tern::f32>({sum.data(), cols, rows, cols,
                                                        reinterpret_cast<const std::byte*>(w.data()), 1e-5f,
                                                        want.data(), cols},
                                                       0, rows);
                const on_device<float> dx(x), dr(r), dw(w), dy(rows * cols);
                tern::cuda::rms_norm(
                    {dx.get(), cols, fused ? dr.get() : nullptr, cols, rows, cols, dw.get(), 1e-5f, dy.get(), cols});
                CHECK(worst(dy.read(), want) < 2e-6);
                if (fused) CHECK(dr.read() == sum);
            }
}

TEST_CASE("kernel/cuda/elementwise: gated and add") {
    tern::cuda::emulation::configure({});
    using enum kernel::activation_kind;
    for (const auto kind : {silu, gelu_tanh, gelu_erf, silu_clamped})
        for (const std::size_t cols : {1, 17, 300}) {
            const std::size_t rows = 3;
            const std::vector<float> g = numbers(rows * cols), u = numbers(rows * cols, 5);
            std::vector<float> want(rows * cols);
            kernel::gated::args a{g.data(), cols, u.data(), cols, rows, cols, kind, want.data(), cols, 1.702f, 0.7f};
            kernel::gated::reference<void>(a, 0, rows);
            const on_device<float> dg(g), du(u), dy(rows * cols);
            a.gate = dg.get(), a.up = du.get(), a.y = dy.get();
            tern::cuda::gated(a);
            CHECK(worst(dy.read(), want) < 1e-6);
            tern::cuda::add({dg.get(), cols, du.get(), cols, rows, cols, dg.get(), cols}); // in place
            for (std::size_t i = 0; i < want.size(); ++i) want[i] = g[i] + u[i];
            CHECK(dg.read() == want);
        }
}

TEST_CASE("kernel/cuda/rope: queries turn in place, keys and values go into their slots") {
    tern::cuda::emulation::configure({});
    const std::size_t tokens = 3, heads = 5, kv_heads = 2, head_dim = 22, slots = 7;
    const std::vector<std::int64_t> slot = {6, -1, 2};
    for (const auto pairing : {kernel::rope_pairing::adjacent, kernel::rope_pairing::half_split})
        for (const std::size_t dims : {0, 14, 22}) {
            const std::vector<float> q = numbers(tokens * heads * head_dim),
                                     k = numbers(tokens * kv_heads * head_dim, 5),
                                     v = numbers(tokens * kv_heads * head_dim, 8), c = numbers(tokens * 11, 13),
                                     s = numbers(tokens * 11, 17);
            std::vector<float> want_q(q.size()), want_k(k.size());
            const auto turn = [&](const std::vector<float>& x, std::size_t n, std::vector<float>& y) {
                const kernel::rope::args a{x.data(), n * head_dim, tokens,   n,        head_dim,    dims,
                                           pairing,  c.data(),     s.data(), y.data(), n * head_dim};
                kernel::rope::reference<void>(a, 0, tokens * n);
            };
            turn(q, heads, want_q), turn(k, kv_heads, want_k);
            const std::size_t width = kv_heads * head_dim;
            const std::vector<float> old(slots * width, 7.0f);
            const on_device<float> dq(q), dk(k), dv(v), dc(c), ds(s), kc(old), vc(old);
            const on_device<std::int64_t> dslot(slot);
            tern::cuda::rope_into_cache({dq.get(), dk.get(), dv.get(), tokens, heads, kv_heads, head_dim, dims, pairing,
                                         dc.get(), ds.get(), dslot.get(), kc.get(), vc.get()});
            CHECK(worst(dq.read(), want_q) < 1e-6);
            std::vector<float> keys = old, values = old;
            for (const std::size_t t : {0, 2})
                for (std::size_t i = 0; i < width; ++i) {
                    keys[static_cast<std::size_t>(slot[t]) * width + i] = want_k[t * width + i];
                    values[static_cast<std::size_t>(slot[t]) * width + i] = v[t * width + i];
                }
            CHECK(worst(kc.read(), keys) < 1e-6);
            CHECK(vc.read() == values);
        }
    const tern::cuda::rope_cache_args odd{
        nullptr, nullptr, nullptr, 1,       1,      1, 4, 3, kernel::rope_pairing::adjacent,
        nullptr, nullptr, nullptr, nullptr, nullptr};
    CHECK_THROWS_AS(tern::cuda::rope_into_cache(odd), tern::shape_error);
}

namespace {

void compare_attention(std::size_t head_dim, std::vector<std::int32_t> positions, std::size_t window, float cap,
                       bool with_sinks) {
    const std::size_t tokens = positions.size(), heads = 6, kv_heads = 2, page = 16, width = kv_heads * head_dim;
    CAPTURE(head_dim);
    CAPTURE(window);
    std::size_t longest = 0;
    for (const auto p : positions) longest = std::max(longest, static_cast<std::size_t>(p + 1));
    const std::size_t pages = (longest + page - 1) / page + 1;
    const std::vector<float> q = numbers(tokens * heads * head_dim), sinks = numbers(heads, 3),
                             k = numbers(tokens * pages * page * width, 5), v = numbers(k.size(), 8);
    std::vector<float> want(q.size());
    std::vector<kernel::kv_page> list(tokens * pages);
    for (std::size_t i = 0; i < list.size(); ++i)
        list[i] = {k.data() + i * page * width, v.data() + i * page * width, page};
    std::vector<kernel::sequence_pages> sequences;
    std::vector<std::int32_t> sequence_of;
    for (std::size_t t = 0; t < tokens; ++t) {
        sequences.push_back({list.data() + t * pages, pages});
        sequence_of.push_back(static_cast<std::int32_t>(t));
    }
    kernel::attention::reference<void>({q.data(), heads * head_dim, tokens, heads, kv_heads, head_dim, 0.3f, cap,
                                        window, with_sinks ? sinks.data() : nullptr, sequences.data(),
                                        sequence_of.data(), positions.data(), want.data(), heads * head_dim},
                                       0, tokens * heads);

    const on_device<float> dq(q), dk(k), dv(v), dsinks(sinks), out(q.size()),
        scratch(tern::cuda::attention_scratch(tokens, heads, head_dim, longest) + 1);
    std::vector<const float*> kp, vp;
    for (std::size_t i = 0; i < list.size(); ++i)
        kp.push_back(dk.get() + i * page * width), vp.push_back(dv.get() + i * page * width);
    const on_device<const float*> dkp(kp), dvp(vp);
    const on_device<std::int32_t> dpos(positions);
    tern::cuda::attention({dq.get(), tokens, heads, kv_heads, head_dim, 0.3f, cap, window,
                           with_sinks ? dsinks.get() : nullptr, dkp.get(), dvp.get(), pages, page, dpos.get(), longest,
                           scratch.get(), out.get()});
    CHECK(worst(out.read(), want) < 3e-6);
}

} // namespace

TEST_CASE("kernel/cuda/attention: parts of the context, windows, caps and sinks") {
    tern::cuda::emulation::configure({});
    compare_attention(1, {0}, 0, 0, false);
    compare_attention(37, {4, -1, 299}, 0, 0, false);
    compare_attention(64, {300}, 7, 2.0f, true);
    compare_attention(96, {20, 255}, 100, 0, true);
    compare_attention(16, {-1}, 0, 0, false);
    tern::cuda::attention_args none{};
    tern::cuda::attention(none);
    none.tokens = 1, none.heads = 3, none.kv_heads = 2;
    CHECK_THROWS_AS(tern::cuda::attention(none), tern::shape_error);
}

TEST_CASE("kernel/cuda/dequantize: blocks decode as on the host") {
    tern::cuda::emulation::configure({});
    for (const std::size_t count : {1, 31, 257}) {
        const std::vector<float> x = numbers(count);
        std::vector<tern::f16::block> blocks(count);
        std::vector<float> want(count);
        for (std::size_t i = 0; i < count; ++i) {
            tern::f16::encode(&x[i], blocks[i]);
            tern::f16::decode(blocks[i], &want[i]);
        }
        const on_device<tern::f16::block> d(blocks);
        const on_device<float> out(count);
        tern::cuda::dequantize<tern::f16>(d.get(), count, out.get());
        CHECK(out.read() == want);
    }
}
