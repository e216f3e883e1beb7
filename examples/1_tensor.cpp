// A tensor: how its numbers are encoded, where it may live and how it moves are parts of its type.
#include <cstdio>
#include <vector>

#include <tern/op/linear.hpp>
#include <tern/residency/store.hpp>
#include <tern/tern.hpp>

using namespace tern::literals;

// Two encodings, two memories, chunks of 64 KiB on the way.
using weight = tern::tensor<tern::formats<tern::q8_0, tern::f32>, tern::tiers<tern::vram, tern::pageable>,
                            tern::staged<64_KiB, 2>>;

int main() {
    // A weight of shape [2, 32] in memory: row 0 is all ones, row 1 counts.
    tern::heap_arena ram(1_MiB);
    std::vector<float> values(2 * 32, 1.0f);
    for (int i = 0; i < 32; ++i) values[32 + i] = static_cast<float>(i);
    const weight w = weight::own<tern::q8_0>(ram, values, {.rows = 2, .cols = 32}, "w");
    std::printf("%s %s, %s\n", w.name().c_str(), to_string(w.shape()).c_str(), to_string(w.slice_bytes()).c_str());

    // The same bytes as a slice of a store, placed into the memory of an emulated accelerator.
    tern::run_loop loop;
    tern::cpu_device cpu(ram, 1);
    tern::emulated_device gpu({.capacity = 64_KiB});
    tern::residency_store store(loop, ram);
    const tern::lease bytes = loop.run(
        [](const weight& t, tern::device& on) -> tern::task<tern::lease> { co_return co_await t.lend(on); }(w, cpu));
    const tern::slice_id slice = store.add("w", {.memory = bytes.data()}, w.slice_bytes());
    const weight moved(store, slice, weight::formats_type::index_of<tern::q8_0>, w.shape(), "w");
    loop.run(store.place(slice, gpu, &weight::transfer_type::move));
    std::printf("placed: %s over the link, %s used of %s\n", to_string(gpu.traffic().to_device).c_str(),
                to_string(gpu.memory().budget().used()).c_str(), to_string(gpu.memory().budget().limit()).c_str());

    // x [1, 32] of ones, times w: the operator leases the weight where it lies, computes there, and lets it go.
    tern::context ctx(loop, cpu);
    tern::activation x = ctx.make(cpu, 1, 32);
    for (int i = 0; i < 32; ++i) x.data()[i] = 1;
    tern::activation y = loop.run(tern::linear(ctx, x, moved));
    y = loop.run(ctx.bring(std::move(y), cpu));
    std::printf("y = %.0f %.0f\n", double(y.data()[0]), double(y.data()[1]));
}
