// An operator of one's own: arithmetic as a kernel with a plain reference, and a coroutine that leases, computes and
// hands back. It runs wherever its operands lie, and a recorded graph shows it like any other.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <tern/op/elementwise.hpp>
#include <tern/op/linear.hpp>
#include <tern/tern.hpp>

using namespace tern::literals;

// The arithmetic: y = max(x, 0)^2. One item is one row.
struct squared_relu_kernel {
    struct args {
        float* x;
        std::size_t rows;
        std::size_t cols;
    };
    static constexpr std::string_view name = "squared_relu";
    static std::size_t items(const args& a) noexcept { return a.rows; }
    template <class> static void reference(const args& a, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin * a.cols; i < end * a.cols; ++i) {
            const float positive = std::max(a.x[i], 0.0f);
            a.x[i] = positive * positive;
        }
    }
};

// The operator: x [tokens, width], in place, where x lies.
tern::task<tern::activation> squared_relu(tern::context& ctx, tern::activation x) {
    if (tern::recorder* into = ctx.recording()) {
        into->call("squared_relu", x.rows(), x.cols());
        co_return x;
    }
    co_await ctx.launch<squared_relu_kernel>(*x.on(), {x.data(), x.rows(), x.cols()});
    co_return x;
}

using weight = tern::tensor<tern::formats<tern::f32>, tern::tiers<tern::pageable>>;

// A layer made of it and of what tern brings.
tern::task<tern::activation> layer(tern::context& ctx, const tern::activation& x, const weight& up,
                                   const weight& down) {
    tern::activation h = co_await tern::linear(ctx, x, up);
    h = co_await squared_relu(ctx, std::move(h));
    co_return co_await tern::linear(ctx, h, down);
}

int main() {
    tern::heap_arena ram(1_MiB);
    tern::run_loop loop;
    tern::cpu_device cpu(ram, 2);
    const weight up = weight::own<tern::f32>(ram, std::vector<float>{1, 0, 0, 1, -1, -1}, {.rows = 3, .cols = 2}, "up");
    const weight down = weight::own<tern::f32>(ram, std::vector<float>{1, 1, 1}, {.rows = 1, .cols = 3}, "down");

    tern::context ctx(loop, cpu);
    tern::activation x = ctx.make(cpu, 2, 2);
    const float tokens[] = {3, 4, -1, 2};
    std::copy(tokens, tokens + 4, x.data());
    const tern::activation y = loop.run(layer(ctx, x, up, down));
    std::printf("y = %g %g\n", double(y.row(0)[0]), double(y.row(1)[0]));

    // The same source, recorded: shapes alone.
    tern::recorder into;
    tern::context recording(loop, cpu, into);
    loop.run(layer(recording, recording.make(cpu, 2, 2), up, down));
    const tern::graph graph = std::move(into).finish(recording.recorded_peak());
    for (const tern::graph_node& node : graph.nodes)
        std::printf("%s [%zu, %zu]\n", std::string(node.op).c_str(), node.rows, node.cols);
}
