#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tern/kernel/attention.hpp>
#include <tern/kernel/cuda/attention.cuh>

#include <kernel/cuda/support.hpp>

using cuda_test::numbers;
using cuda_test::on_device;
using cuda_test::worst;
namespace kernel = tern::kernel;

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
