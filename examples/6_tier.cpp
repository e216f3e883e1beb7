// A tier of one's own: a tag, an arena that hands out its memory, and a place in a tensor's list. This one is shared
// memory, which other processes may map: a server could keep weights there over its restarts.
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <tern/file/open_checkpoint.hpp>
#include <tern/model/read_config.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/sampler.hpp>
#include <tern/tern.hpp>

using namespace tern::literals;

// The tag: its name, and who reads its bytes in place.
struct shared {
    static constexpr std::string_view name = "shared";
    static constexpr tern::reach reached_by = tern::reach::host;
};
static_assert(tern::tier<shared>);

// The arena: each allocation is the next stretch of one file in memory, mapped.
class shared_arena final : public tern::arena {
public:
    explicit shared_arena(tern::bytes limit) : budget_("shared memory", limit), file_(::memfd_create("weights", 0)) {
        if (file_ < 0) throw tern::io_error("the system has no shared memory");
    }
    ~shared_arena() override { ::close(file_); }

    const tern::budget& budget() const noexcept override { return budget_; }
    tern::location where() const noexcept override { return {tern::tier_of<shared>, 0, 0}; }

private:
    std::byte* take(tern::bytes n, std::string_view what) override {
        const tern::bytes size = tern::slab_size(n); // whole pages
        budget_.take(size, what, n);
        const std::lock_guard lock(mutex_); // transfers have threads of their own
        void* at = MAP_FAILED;
        if (::ftruncate(file_, end_ + static_cast<off_t>(size.count)) == 0)
            at = ::mmap(nullptr, size.count, PROT_READ | PROT_WRITE, MAP_SHARED, file_, end_);
        if (at == MAP_FAILED) {
            budget_.give_back(size, n);
            throw tern::budget_error("the system has no shared memory for " + std::string(what), {.needed = n.count});
        }
        end_ += static_cast<off_t>(size.count);
        return static_cast<std::byte*>(at);
    }
    void give_back(std::byte* data, tern::bytes n) noexcept override {
        const tern::bytes size = tern::slab_size(n);
        ::madvise(data, size.count, MADV_REMOVE); // the file keeps a hole
        ::munmap(data, size.count);
        budget_.give_back(size, n);
    }

    tern::budget budget_;
    int file_;
    std::mutex mutex_;
    off_t end_ = 0;
};

// A weight that may live there.
using weight =
    tern::tensor<tern::formats<tern::f16, tern::f32>, tern::tiers<shared, tern::mapped>, tern::staged<64_KiB, 2>>;

int main() try {
    const tern::checkpoint file = tern::open_checkpoint("examples/data/tiny.gguf");
    shared_arena memory(2_MiB);
    tern::runtime run({.threads = 2});
    run.add(memory); // the cpu computes there
    tern::weights<weight> from(file, run.store());
    const tern::llama<weight> model(from, tern::read_config(file));
    const tern::graph graph = tern::record(model, run.loop(), run.cpu(), 8);

    // Places the weights, then writes.
    const auto tokens_from = [&](const tern::tier_info& tier) {
        const tern::placement plan = tern::all_cpu{tier}.place(graph, run.machine());
        run.load(plan, graph);
        std::printf("%-6s %s of weights, %s of shared memory in use\n", std::string(tier.name).c_str(),
                    to_string(plan.bytes_at(graph, {tier})).c_str(), to_string(memory.budget().used()).c_str());
        tern::contiguous_cache cache(run.ram(), model.config().cache_for(32));
        tern::sampler choose({.temperature = 0});
        std::vector<std::int32_t> tokens = {1};
        run.loop().run(
            tern::generate(run.ctx(), model, cache, tokens, choose, {.tokens = 16}, [](std::int32_t) { return true; }));
        return tokens;
    };
    const auto mapped = tokens_from(tern::tier_of<tern::mapped>);
    const auto moved = tokens_from(tern::tier_of<shared>);
    const auto back = tokens_from(tern::tier_of<tern::mapped>);
    std::printf("the same tokens: %s\n", mapped == moved && moved == back ? "yes" : "no");
} catch (const tern::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
