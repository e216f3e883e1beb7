#include <tern/op/experts.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace test = tern::test;

namespace {

constexpr std::size_t width = 16;
constexpr std::size_t hidden = 16;
constexpr std::size_t count = 4;

/// Four experts in a user's own format.
struct mixture {
    std::vector<float> router = test::numbers(count * width, 11);
    std::vector<float> gate = test::numbers(count * hidden * width, 12);
    std::vector<float> up = test::numbers(count * hidden * width, 13);
    std::vector<float> down = test::numbers(count * width * hidden, 14);

    tern::expert_weights<test::op_weight> weights(test::bench& b) const {
        tern::expert_weights<test::op_weight> w;
        w.router = b.weight<own::halves>(router, {count, width, 1}, "router");
        w.gate = b.weight<own::halves>(gate, {hidden, width, count}, "gate_exps");
        w.up = b.weight<own::halves>(up, {hidden, width, count}, "up_exps");
        w.down = b.weight<own::halves>(down, {width, hidden, count}, "down_exps");
        return w;
    }

    /// The dense network of one expert, in double precision.
    std::vector<double> expert(std::size_t e, const float* x) const {
        const auto dot = [&](const std::vector<float>& w, std::size_t r) {
            double sum = 0;
            for (std::size_t c = 0; c < width; ++c)
                sum += static_cast<double>(w[(e * hidden + r) * width + c]) * static_cast<double>(x[c]);
            return sum;
        };
        std::vector<double> h(hidden);
        for (std::size_t r = 0; r < hidden; ++r) {
            const double g = dot(gate, r);
            h[r] = g / (1 + std::exp(-g)) * dot(up, r);
        }
        std::vector<double> y(width);
        for (std::size_t r = 0; r < width; ++r)
            for (std::size_t c = 0; c < hidden; ++c)
                y[r] += static_cast<double>(down[(e * width + r) * hidden + c]) * h[c];
        return y;
    }
};

} // namespace

TEST_CASE("op/experts: equal router logits choose the lowest ids, with equal weights, however often") {
    test::bench b;
    mixture m;
    m.router.assign(count * width, 0);
    const auto w = m.weights(b);
    const std::vector<float> values = test::numbers(3 * width, 5);
    const tern::activation x = b.make(values, 3);
    const std::vector<float> y = b.values(tern::experts(b.ctx, x, w, {.used = 2}));
    REQUIRE(y.size() == values.size());
    for (std::size_t t = 0; t < 3; ++t) {
        const std::vector<double> first = m.expert(0, values.data() + t * width);
        const std::vector<double> second = m.expert(1, values.data() + t * width);
        for (std::size_t i = 0; i < width; ++i)
            CHECK(static_cast<double>(y[t * width + i]) == doctest::Approx((first[i] + second[i]) / 2).epsilon(1e-4));
    }
    for (int again = 0; again < 20; ++again) CHECK(test::same(b.values(tern::experts(b.ctx, x, w, {.used = 2})), y));
    b.put(w.router, b.gpu);
    b.put(w.gate, b.gpu);
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, {.used = 2})), y));
}

TEST_CASE("op/experts: the order of softmax and top-k decides the weights where they are not normalised") {
    test::bench b;
    mixture m;
    m.router.assign(count * width, 0);
    for (std::size_t e = 0; e < count; ++e) m.router[e * width] = 2 - static_cast<float>(e); // logits 2, 1, 0, -1
    const auto w = m.weights(b);
    std::vector<float> values(width, 0);
    values[0] = 1;
    values[3] = -2;
    const tern::activation x = b.make(values, 1);
    const std::vector<double> one = m.expert(0, values.data());
    const std::vector<double> two = m.expert(1, values.data());
    const auto check = [&](tern::expert_options how, double first, double second) {
        const std::vector<float> y = b.values(tern::experts(b.ctx, x, w, how));
        for (std::size_t i = 0; i < width; ++i)
            CHECK(static_cast<double>(y[i]) == doctest::Approx(first * one[i] + second * two[i]).epsilon(1e-4));
    };
    const double e1 = std::exp(-1.0), e2 = std::exp(-2.0), e3 = std::exp(-3.0);
    const double all = 1 + e1 + e2 + e3;
    check({.used = 2, .normalise = false}, 1 / all, e1 / all);
    check({.used = 2}, 1 / (1 + e1), e1 / (1 + e1));
    check({.used = 2, .softmax = tern::kernel::router_softmax::after_top_k, .normalise = false}, 1 / (1 + e1),
          e1 / (1 + e1));
    check({.used = 2, .scale = 3}, 3 / (1 + e1), 3 * e1 / (1 + e1));
}

TEST_CASE("op/experts: any split of experts over two devices and any batch give the same bits; unused ones stay put") {
    test::bench b;
    const mixture m;
    const auto w = m.weights(b);
    const std::vector<float> values = test::numbers(9 * width, 6);
    const tern::activation x = b.make(values, 9);
    const std::vector<float> y = b.values(tern::experts(b.ctx, x, w, {.used = 2}));
    for (std::size_t t = 0; t < 9; ++t) {
        const std::vector<float> row(values.begin() + static_cast<std::ptrdiff_t>(t * width),
                                     values.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
        const tern::activation alone = b.make(row, 1);
        const std::vector<float> got = b.values(tern::experts(b.ctx, alone, w, {.used = 2}));
        CHECK(test::same(got, {y.begin() + static_cast<std::ptrdiff_t>(t * width),
                               y.begin() + static_cast<std::ptrdiff_t>((t + 1) * width)}));
    }
    for (const std::size_t e : {1u, 3u}) // the gate decides where an expert computes
        for (const test::op_weight* part : {&w.gate, &w.up, &w.down})
            b.loop.run(b.store.place(part->slice(e), b.gpu, &tern::blocking::move));
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, {.used = 2})), y));
    for (std::size_t e = 0; e < count; ++e) b.store.assign(w.gate.slice(e), b.gpu); // streamed for each use
    for (std::size_t e = 0; e < count; ++e) b.store.evict(w.gate.slice(e), b.gpu);
    const std::uint64_t before = b.store.counters().arrivals;
    const tern::activation single = b.make({values.begin(), values.begin() + width}, 1);
    b.values(tern::experts(b.ctx, single, w, {.used = 1}));
    CHECK(b.store.counters().arrivals - before <=
          3); // one expert's gate, and its up and down where they were not there
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, {.used = 2})), y));
}

TEST_CASE("op/experts: biases of the router and of the experts, and the clamped gate, against double precision") {
    test::bench b;
    mixture m;
    for (float& x : m.router) x *= 0.25f;
    auto w = m.weights(b);
    w.router = b.weight<tern::f32>(m.router, {count, width, 1}, "router");
    const std::vector<float> of_router{0.5f, -1, 1.5f, 0}, of_gate = test::numbers(count * hidden, 41);
    const std::vector<float> of_up = test::numbers(count * hidden, 42), of_down = test::numbers(count * width, 43);
    w.router_bias = b.weight<tern::f32>(of_router, {1, count, 1}, "router_bias");
    w.gate_bias = b.weight<tern::f32>(of_gate, {1, hidden, count}, "gate_bias");
    w.up_bias = b.weight<own::halves>(of_up, {1, hidden, count}, "up_bias");
    w.down_bias = b.weight<tern::f32>(of_down, {1, width, count}, "down_bias");
    const auto dot = [&](const std::vector<float>& a, std::size_t row, const std::vector<double>& x) {
        double sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(a[row * x.size() + i]) * x[i];
        return sum;
    };
    std::size_t clamped = 0;
    const auto expert = [&](std::size_t e, const std::vector<double>& x) {
        std::vector<double> h(hidden), y(width);
        for (std::size_t r = 0; r < hidden; ++r) {
            const double g = dot(m.gate, e * hidden + r, x) + static_cast<double>(of_gate[e * hidden + r]);
            const double u = dot(m.up, e * hidden + r, x) + static_cast<double>(of_up[e * hidden + r]);
            const double low = std::min(g, 7.0);
            clamped += g > 7 || std::fabs(u) > 7 ? 1 : 0;
            h[r] = (std::clamp(u, -7.0, 7.0) + 1) * low / (1 + std::exp(-1.702 * low));
        }
        for (std::size_t r = 0; r < width; ++r)
            y[r] = dot(m.down, e * width + r, h) + static_cast<double>(of_down[e * width + r]);
        return y;
    };
    const tern::expert_options how{.used = 2,
                                   .softmax = tern::kernel::router_softmax::after_top_k,
                                   .normalise = false,
                                   .act = tern::kernel::activation_kind::silu_clamped};
    const std::vector<float> values = test::numbers(7 * width, 44);
    const tern::activation x = b.make(values, 7);
    const std::vector<float> y = b.values(tern::experts(b.ctx, x, w, how));
    for (std::size_t t = 0; t < 7; ++t) {
        const std::vector<double> in(values.begin() + static_cast<std::ptrdiff_t>(t * width),
                                     values.begin() + static_cast<std::ptrdiff_t>((t + 1) * width));
        std::vector<double> logits(count);
        for (std::size_t e = 0; e < count; ++e) logits[e] = dot(m.router, e, in) + static_cast<double>(of_router[e]);
        std::vector<std::size_t> order{0, 1, 2, 3};
        std::stable_sort(order.begin(), order.end(), [&](auto p, auto q) { return logits[p] > logits[q]; });
        const double second = 1 / (1 + std::exp(logits[order[0]] - logits[order[1]]));
        const std::vector<double> best = expert(order[0], in), next = expert(order[1], in);
        double largest = 1;
        for (std::size_t i = 0; i < width; ++i) largest = std::max({largest, std::fabs(best[i]), std::fabs(next[i])});
        for (std::size_t i = 0; i < width; ++i)
            CHECK(std::fabs(static_cast<double>(y[t * width + i]) - ((1 - second) * best[i] + second * next[i])) <=
                  1e-5 * largest);
    }
    CHECK(clamped > 10);

    // Anywhere the same bits; a bias moves with its expert.
    w.each_part([&](const test::op_weight& part) {
        for (const std::size_t e : {1u, 2u}) b.loop.run(b.store.place(part.slice(e), b.gpu, &tern::blocking::move));
    });
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, how)), y));
    w.each_part([&](const test::op_weight& part) {
        for (std::size_t e = 0; e < count; ++e) {
            b.store.evict(part.slice(e), b.gpu);
            b.store.assign(part.slice(e), b.gpu, tern::retention::cache);
        }
    });
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, how)), y));
    CHECK(b.store.state(w.gate_bias.slice(2), b.gpu.memory().where()) == tern::copy_state::resident);
    CHECK(b.ctx.expert_use().active.count % w.each().count == 0);
    b.put(w.router, b.gpu);
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, how)), y));

    // All three biases or none, each of its size; and they are recorded with their experts.
    auto wrong = w;
    wrong.up_bias = {};
    CHECK_THROWS_AS(b.loop.run(tern::experts(b.ctx, x, wrong, how)), tern::shape_error);
    wrong = w;
    wrong.down_bias = b.weight({1, 8, count}, "short_bias");
    CHECK(test::has(test::text_of<tern::shape_error>([&] { b.loop.run(tern::experts(b.ctx, x, wrong, how)); }),
                    "short_bias"));
    wrong = w;
    wrong.router_bias = b.weight({1, 3, 1}, "router_short");
    CHECK(test::has(test::text_of<tern::shape_error>([&] { b.loop.run(tern::experts(b.ctx, x, wrong, how)); }),
                    "router_short"));
    b.loop.run(tern::experts(b.recording, b.recording.make(b.cpu, 2, width), w, how));
    const tern::graph g = std::move(b.notes).finish({});
    REQUIRE(g.nodes.size() == 2);
    CHECK(g.nodes[0].tensors.size() == 2);
    REQUIRE(g.nodes[1].tensors.size() == 6);
    CHECK(g.tensors[g.nodes[1].tensors[0]].name == "gate_exps");
    CHECK(g.tensors[g.nodes[1].tensors[5]].name == "down_bias");
}

TEST_CASE("op/experts: a shared expert is added, weighed by its own gate where it has one") {
    test::bench b;
    const mixture m;
    auto w = m.weights(b);
    const tern::activation x = b.make(2, width, 9);
    const std::vector<float> without = b.values(tern::experts(b.ctx, x, w, {.used = 1}));
    w.shared_gate = b.weight({hidden, width}, "shared_gate", 21);
    w.shared_up = b.weight({hidden, width}, "shared_up", 22);
    w.shared_down = b.weight({width, hidden}, "shared_down", 23);
    const tern::activation h = b.loop.run(tern::swiglu(b.ctx, x, w.shared_gate, w.shared_up));
    const std::vector<float> shared = b.values(tern::linear(b.ctx, h, w.shared_down));
    const std::vector<float> with = b.values(tern::experts(b.ctx, x, w, {.used = 1}));
    for (std::size_t i = 0; i < with.size(); ++i) CHECK(with[i] == without[i] + shared[i]);
    w.shared_router = b.weight<tern::f32>(std::vector<float>(width, 0), {1, width}, "shared_router");
    const std::vector<float> half = b.values(tern::experts(b.ctx, x, w, {.used = 1}));
    for (std::size_t i = 0; i < half.size(); ++i)
        CHECK(half[i] == doctest::Approx(without[i] + shared[i] / 2).epsilon(1e-5)); // sigmoid(0)
}

TEST_CASE("op/experts: wrong shapes and counts name the tensor; the recorded shape is the computed one") {
    test::bench b;
    const mixture m;
    const auto w = m.weights(b);
    const tern::activation x = b.make(2, width);
    const auto text = [&](const tern::expert_weights<test::op_weight>& wrong, std::size_t used) {
        return test::text_of<tern::shape_error>([&] { b.loop.run(tern::experts(b.ctx, x, wrong, {.used = used})); });
    };
    CHECK(test::has(text(w, 0), "router"));
    CHECK(test::has(text(w, 5), "choose 5"));
    auto wrong = w;
    wrong.up = b.weight({hidden, width, 3}, "short_up");
    CHECK(test::has(text(wrong, 1), "short_up"));
    wrong = w;
    wrong.down = b.weight({width, 8, count}, "thin_down");
    CHECK(test::has(text(wrong, 1), "thin_down"));
    const tern::activation narrow = b.make(2, 8);
    CHECK(test::has(test::text_of<tern::shape_error>([&] { b.loop.run(tern::experts(b.ctx, narrow, w, {.used = 1})); }),
                    "router"));
    const tern::activation shape = b.recording.make(b.cpu, 2, width);
    const tern::activation y = b.loop.run(tern::experts(b.recording, shape, w, {.used = 2}));
    CHECK(y.rows() == 2);
    CHECK(y.cols() == width);
    const tern::graph g = std::move(b.notes).finish({});
    REQUIRE(g.nodes.size() == 2);
    CHECK(g.nodes[1].active == 2);
    CHECK(g.nodes[1].tensors.size() == 3);
    CHECK(g.tensors[1].shape.experts == count);
}

namespace {

constexpr std::size_t many = 8;

/// Eight experts; a token of ones chooses 1, 2, 3 and 6, in another order.
struct wide_mixture {
    tern::expert_weights<test::op_weight> weights(test::bench& b) const {
        std::vector<float> router(many * width, 0);
        const float logits[many] = {-2, 1, 2, 1.5f, -1, -2, 0.5f, -1.5f};
        for (std::size_t e = 0; e < many; ++e) router[e * width] = logits[e];
        tern::expert_weights<test::op_weight> w;
        w.router = b.weight<tern::f32>(router, {many, width, 1}, "router");
        w.gate = b.weight({hidden, width, many}, "gate_exps", 31);
        w.up = b.weight({hidden, width, many}, "up_exps", 32);
        w.down = b.weight({width, hidden, many}, "down_exps", 33);
        return w;
    }
    static tern::bytes bytes_of(const tern::expert_weights<test::op_weight>& w) {
        return w.gate.slice_bytes() + w.up.slice_bytes() + w.down.slice_bytes();
    }
    /// Computed on the device, where copies are cached.
    static void cache_on(const tern::expert_weights<test::op_weight>& w, test::bench& b) {
        for (const test::op_weight* part : {&w.gate, &w.up, &w.down})
            for (std::size_t e = 0; e < many; ++e) b.store.assign(part->slice(e), b.gpu, tern::retention::cache);
    }
};

const tern::expert_options four{.used = 4};

} // namespace

TEST_CASE("op/experts: a token moves the bytes of its experts alone, neighbours together, and once") {
    test::bench b;
    const auto w = wide_mixture{}.weights(b);
    const tern::activation x = b.make(std::vector<float>(width, 1), 1);
    const std::vector<float> expected = b.values(tern::experts(b.ctx, x, w, four));
    CHECK(b.store.counters().arrivals == 0); // in place
    wide_mixture::cache_on(w, b);
    const tern::expert_counters first = b.ctx.expert_use();
    CHECK(first.chosen == 4);
    CHECK(first.active == wide_mixture::bytes_of(w) * 4);
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, four)), expected));
    tern::pool_counters there = b.store.counters(b.gpu);
    CHECK(there.moved == wide_mixture::bytes_of(w) * 4);
    CHECK(there.arrivals == 3 * 4);
    CHECK(there.transfers == 3 * 2); // of each packed tensor 1 to 3, and 6
    CHECK(there.misses == 3 * 4);
    CHECK(there.hits == 0);
    for (const std::size_t e : {1u, 2u, 3u, 6u})
        for (const test::op_weight* part : {&w.gate, &w.up, &w.down})
            CHECK(b.store.state(part->slice(e), b.gpu.memory().where()) == tern::copy_state::resident);
    CHECK(b.store.state(w.gate.slice(0), b.gpu.memory().where()) == tern::copy_state::absent);
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, four)), expected));
    there = b.store.counters(b.gpu);
    CHECK(there.moved == wide_mixture::bytes_of(w) * 4);
    CHECK(there.hits == 3 * 4);
    CHECK(there.misses == 3 * 4);
    CHECK(b.ctx.expert_use().chosen == 12);
    CHECK(b.ctx.expert_use().on_host == 0);
}

TEST_CASE("op/experts: missing ones are fetched, computed on the host, or shared, with the same bits") {
    const auto moved = [](tern::on_miss how, std::uint64_t on_host) {
        test::bench b;
        const auto w = wide_mixture{}.weights(b);
        const tern::activation x = b.make(std::vector<float>(width, 1), 1);
        const std::vector<float> expected = b.values(tern::experts(b.ctx, x, w, four));
        wide_mixture::cache_on(w, b);
        b.ctx.treat_misses(tern::miss_policy(how));
        CHECK(test::same(b.values(tern::experts(b.ctx, x, w, four)), expected));
        CHECK(b.ctx.expert_use().on_host == on_host);
        const tern::bytes once = b.store.counters(b.gpu).moved;
        for (int i = 0; i < 5; ++i) CHECK(test::same(b.values(tern::experts(b.ctx, x, w, four)), expected));
        const tern::activation batch = b.make(std::vector<float>(5 * width, 1), 5);
        const std::vector<float> rows = b.values(tern::experts(b.ctx, batch, w, four));
        for (std::size_t t = 0; t < 5; ++t)
            CHECK(test::same({rows.begin() + static_cast<std::ptrdiff_t>(t * width),
                              rows.begin() + static_cast<std::ptrdiff_t>((t + 1) * width)},
                             expected));
        return once.count / wide_mixture::bytes_of(w).count;
    };
    CHECK(moved(tern::on_miss::fetch, 0) == 4);
    CHECK(moved(tern::on_miss::compute, 4) == 0);
    CHECK(moved(tern::on_miss::split, 2) == 2); // nothing is measured: a half
}

TEST_CASE("op/experts: a cache of one expert, or two, is enough, and less is an error that names the slice") {
    test::bench b;
    const auto w = wide_mixture{}.weights(b);
    const tern::activation x = b.make(std::vector<float>(3 * width, 1), 3);
    const std::vector<float> expected = b.values(tern::experts(b.ctx, x, w, four));
    wide_mixture::cache_on(w, b);
    const tern::bytes slice = w.gate.slice_bytes();
    for (const std::uint64_t slices : {1u, 2u, 3u, 4u, 7u, 13u}) {
        CAPTURE(slices);
        b.store.bound(b.gpu, slice * slices);
        for (int i = 0; i < 3; ++i) CHECK(test::same(b.values(tern::experts(b.ctx, x, w, four)), expected));
        CHECK(b.store.cached(b.gpu) <= slice * slices);
        for (const test::op_weight* part : {&w.gate, &w.up, &w.down})
            for (std::size_t e = 0; e < many; ++e) b.store.evict(part->slice(e), b.gpu);
    }
    CHECK(b.store.counters(b.gpu).evictions > 0);
    b.store.bound(b.gpu, {slice.count - 1});
    CHECK(test::has(test::text_of<tern::budget_error>([&] { b.loop.run(tern::experts(b.ctx, x, w, four)); }),
                    "gate_exps"));
    CHECK(b.store.cached(b.gpu) == tern::bytes{});
    b.store.bound(b.gpu, tern::unlimited);
    CHECK(test::same(b.values(tern::experts(b.ctx, x, w, four)), expected));
}
