// A device of one's own: it owns memory, begins work, and says when it is done. This one runs the host's kernels on a
// thread of its own, in memory that nobody else reads, and counts what it is asked to do.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <tern/device/service.hpp>
#include <tern/file/open_checkpoint.hpp>
#include <tern/model/open_decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/sampler.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/tern.hpp>

using namespace tern::literals;

class counting_device final : public tern::device {
public:
    explicit counting_device(tern::bytes capacity) : memory_({tern::tier_of<tern::vram>, 0, 0}, capacity) {}

    std::string_view name() const noexcept override { return "counting"; }
    tern::kernel_kind kernels() const noexcept override { return tern::kernel_kind::host; }
    tern::arena& memory() noexcept override { return memory_; }

    bool start(tern::device_call& call) override {
        ++launches;
        compute_.submit(call);
        return false; // its thread posts the call's end to the loop that waits for it
    }
    bool start(tern::copy_call& call, tern::direction way) override {
        (way == tern::direction::to_device ? in : out) += call.size.count;
        link_.submit(call);
        return false;
    }

    std::atomic<std::uint64_t> launches{0}, in{0}, out{0};

private:
    struct compute {
        void operator()(tern::device_call& call) const { call.compute(call, 0, call.items); }
    };
    struct copier {
        void operator()(tern::copy_call& call) const { std::memcpy(call.to, call.from, call.size.count); }
    };

    tern::region_arena memory_; // of a fixed capacity
    tern::service<tern::device_call, compute> compute_{{}};
    tern::service<tern::copy_call, copier> link_{{}};
};

int main() try {
    const tern::checkpoint file = tern::open_checkpoint("examples/data/tiny.gguf");
    counting_device mine(2_MiB);
    tern::runtime run({.threads = 2});
    run.add(mine);
    const auto model = tern::open_decoder(file, run.store());
    const tern::graph graph = tern::record(*model, run.loop(), run.cpu(), 8);

    // The last `layers` layers of the model there, and the rest on the cpu.
    const auto tokens_with = [&](std::size_t layers) {
        const tern::placement plan = tern::layer_split{.layers = layers}.place(graph, run.machine());
        mine.launches = mine.in = mine.out = 0;
        run.load(plan, graph);
        const std::uint64_t loaded = mine.in;
        tern::paged_cache cache(run.ram(), model->config().cache_for(32));
        tern::sampler choose({.temperature = 0});
        std::vector<std::int32_t> tokens = {1};
        run.loop().run(tern::generate(run.ctx(), *model, cache, tokens, choose, {.tokens = 16},
                                      [](std::int32_t) { return true; }));
        std::printf("%zu layers: %s of weights went in; %llu launches, %s in and %s out for 16 tokens\n", layers,
                    to_string(tern::bytes{loaded}).c_str(), static_cast<unsigned long long>(mine.launches),
                    to_string(tern::bytes{mine.in - loaded}).c_str(), to_string(tern::bytes{mine.out}).c_str());
        return tokens;
    };
    const auto none = tokens_with(0);
    const auto half = tokens_with(2);
    const auto all = tokens_with(4);
    std::printf("the same tokens: %s\n", none == half && half == all ? "yes" : "no");
} catch (const tern::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
