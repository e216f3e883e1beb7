#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tern/kernel/cuda/rope.cuh>
#include <tern/kernel/rope.hpp>

#include <kernel/cuda/support.hpp>

using cuda_test::numbers;
using cuda_test::on_device;
using cuda_test::worst;
namespace kernel = tern::kernel;

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
