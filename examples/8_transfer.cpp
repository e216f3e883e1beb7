// A transfer of one's own: how the bytes of a weight move is a part of its type. This one mistrusts the link: it reads
// back every piece that it has sent, and compares checksums.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/read_config.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/sampler.hpp>
#include <tern/plan/layer_stream.hpp>
#include <tern/tern.hpp>
#include <tern/transfer/read.hpp>

using namespace tern::literals;

struct verified {
    static constexpr std::string_view name = "verified";
    static inline std::atomic<std::uint64_t> moves{0}, pieces{0}, compared{0};

    static tern::task<void> move(tern::transfer_request request) {
        constexpr std::uint64_t most = 64 * 1024;
        const tern::allocation stage = request.staging->allocate({most}, request.what);
        for (std::uint64_t at = 0; at < request.size.count; at += most) {
            const tern::bytes n{std::min(most, request.size.count - at)};
            co_await tern::read_backing(request, at, stage.data(), n.count); // throws where the run is stopped
            const std::uint64_t sent = checksum(stage.data(), n);
            std::byte* const there = request.to + at;
            co_await tern::copy(*request.on, *request.home, tern::direction::to_device, there, stage.data(), n);
            co_await tern::copy(*request.on, *request.home, tern::direction::to_host, stage.data(), there, n);
            if (checksum(stage.data(), n) != sent)
                throw tern::io_error("was changed on its way", {.tensor = std::string(request.what)});
            tern::arrived(request, n.count); // whoever shows progress is told
            ++pieces;
            compared += n.count;
        }
        ++moves;
    }

private:
    static std::uint64_t checksum(const std::byte* data, tern::bytes n) { // FNV-1a
        std::uint64_t sum = 14695981039346656037u;
        for (std::uint64_t i = 0; i < n.count; ++i) sum = (sum ^ static_cast<std::uint64_t>(data[i])) * 1099511628211u;
        return sum;
    }
};
static_assert(tern::transfer_strategy<verified>);

// Used like any other; prefetched<8, verified> would bring eight weights ahead.
using weight = tern::tensor<tern::formats<tern::f16, tern::f32>, tern::tiers<tern::vram, tern::mapped>, verified>;

int main() try {
    const tern::checkpoint file = tern::open_checkpoint("examples/data/tiny.gguf");

    // With so much memory on the emulated accelerator, or with none.
    const auto tokens_with = [&](tern::bytes vram) {
        tern::runtime run({.threads = 2, .vram = vram});
        tern::weights<weight> from(file, run.store());
        const tern::llama<weight> model(from, tern::read_config(file));
        const tern::graph graph = tern::record(model, run.loop(), run.cpu(), 8);
        const tern::placement plan =
            tern::layer_stream{.from = tern::tier_of<tern::mapped>}.place(graph, run.machine());
        run.load(plan, graph);
        tern::paged_cache cache(run.ram(), model.config().cache_for(32));
        tern::sampler choose({.temperature = 0});
        std::vector<std::int32_t> tokens = {1};
        run.loop().run(
            tern::generate(run.ctx(), model, cache, tokens, choose, {.tokens = 16}, [](std::int32_t) { return true; }));
        std::printf("%s of vram: %llu moves so far, in %llu pieces; %s sent, read back and compared\n",
                    to_string(vram).c_str(), static_cast<unsigned long long>(verified::moves),
                    static_cast<unsigned long long>(verified::pieces),
                    to_string(tern::bytes{verified::compared}).c_str());
        return tokens;
    };
    const auto host = tokens_with({});
    const auto streamed = tokens_with(640_KiB);
    const auto resident = tokens_with(4_MiB);
    std::printf("the same tokens: %s\n", host == streamed && streamed == resident ? "yes" : "no");
} catch (const tern::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
