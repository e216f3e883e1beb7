// Migration never changes the answer: tensors and experts move at random between the passes of a decoder, and during
// them, and the logits stay the same to the last bit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/when_all.hpp>
#include <tern/memory/open_reader.hpp>
#include <tern/model/weights.hpp>
#include <tern/plan/all_cpu.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace {

namespace test = tern::test;
using namespace tern::literals;

constexpr std::size_t tokens = 30;
constexpr tern::move_function move = &tern::any_weight::transfer_type::move;

std::string file(const char* name) { return test::source_file(std::string("tests/data/logits/") + name + ".gguf"); }

/// One decoder that goes on, token by token, always with the most probable one; it keeps all logits.
struct writing {
    test::model& m;
    tern::contiguous_cache kv = m.cache(tokens + 8);
    tern::batch next{};
    std::vector<float> logits{};

    explicit writing(test::model& of) : m(of) { next.add(std::vector<std::int32_t>{1, 17, 50, 3, 99}); }

    tern::task<> step() {
        tern::context& ctx = m.run().ctx();
        tern::any_cache any(kv);
        tern::activation row = co_await m.decode().forward(ctx, next, any);
        row = co_await ctx.bring(std::move(row), ctx.host());
        logits.insert(logits.end(), row.data(), row.data() + row.cols());
        const auto best = std::max_element(row.data(), row.data() + row.cols()) - row.data();
        next.clear();
        next.add(static_cast<std::int32_t>(best), kv.length(0));
    }
    tern::task<> all(bool& ended) {
        struct at_end {
            bool& ended;
            ~at_end() { ended = true; }
        } const mark{ended};
        for (std::size_t i = 0; i < tokens; ++i) {
            co_await step();
            co_await m.run().loop().schedule(); // the others have a turn
        }
    }
};

/// Moves slices at random. What it keeps in a memory never takes more than a share of it, so that the decoder always
/// finds room for what it needs.
class mover {
public:
    mover(test::model& m, unsigned seed) : run_(m.run()), random_(seed), kept_(run_.devices().size()) {
        const tern::graph g = m.record();
        for (const tern::planned_tensor& t : g.tensors) largest_ = std::max(largest_, t.slice_size.count + 2 * 4096);
    }

    tern::task<> some(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) co_await act();
    }
    tern::task<> until(bool& ended) {
        while (!ended) {
            co_await act();
            for (std::size_t i = random_() % 4; i > 0; --i) co_await run_.loop().schedule();
        }
    }
    std::size_t acts() const noexcept { return acts_; }

private:
    tern::residency_store& store() noexcept { return run_.store(); }
    tern::device& any_device() { return *run_.devices()[at_ = random_() % run_.devices().size()]; }
    tern::slice_id any_slice() { return static_cast<tern::slice_id>(random_() % store().slices()); }

    tern::task<> act() {
        ++acts_;
        tern::device& on = any_device();
        const tern::slice_id id = any_slice();
        const tern::slice_id run[] = {id, static_cast<tern::slice_id>(std::min<std::size_t>(id + 1, last())),
                                      static_cast<tern::slice_id>(std::min<std::size_t>(id + 2, last()))};
        switch (random_() % 8) {
        case 0:
        case 1: co_await keep(id, on, at_); break;
        case 2: give_up(at_); break;
        case 3: store().evict(id, on); break;
        case 4: store().assign(id, on, tern::retention::drop, random_() % 2 == 0); break;
        case 5: store().assign(id, on, tern::retention::cache, random_() % 2 == 0); break;
        case 6: store().expect(run, on, move); break;
        default: store().bring_ahead({run, 1 + random_() % 3}, on, move);
        }
        if (random_() % 16 == 0) store().bound(on, {(3 + random_() % 3) * largest_});
    }
    std::size_t last() { return store().slices() - 1; }

    tern::task<> keep(tern::slice_id id, tern::device& on, std::size_t at) {
        std::uint64_t held = store().size(id).count;
        for (const tern::slice_id other : kept_[at]) held += store().size(other).count + 4096;
        if (held > 3 * largest_) {
            give_up(at);
            co_return;
        }
        kept_[at].push_back(id); // beforehand: others may act while it arrives
        try {
            co_await store().place(id, on, move);
        } catch (const tern::budget_error&) { store().evict(id, on); }
    }
    void give_up(std::size_t at) {
        if (kept_[at].empty()) return;
        const std::size_t which = random_() % kept_[at].size();
        store().evict(kept_[at][which], *run_.devices()[at]);
        kept_[at].erase(kept_[at].begin() + static_cast<std::ptrdiff_t>(which));
    }

    tern::runtime& run_;
    std::mt19937 random_;
    std::vector<std::vector<tern::slice_id>> kept_; // by device
    std::uint64_t largest_ = 0;
    std::size_t at_ = 0;
    std::size_t acts_ = 0;
};

/// Memories that hold a few slices beside the activations.
tern::runtime_options tight(const std::string& path, tern::disk_reader* disk, std::size_t threads) {
    test::model plain(path, {.threads = 1});
    const tern::graph g = plain.record();
    std::uint64_t largest = 0;
    for (const tern::planned_tensor& t : g.tensors) largest = std::max(largest, t.slice_size.count + 2 * 4096);
    const tern::bytes room{2 * g.activation_room().count + 12 * largest};
    return {.threads = threads, .ram = 16_MiB, .pinned = room, .vram = room, .disk = disk};
}

/// Nothing is left in any memory when all copies are given up.
void check_empty(test::model& m) {
    tern::runtime& run = m.run();
    run.loop().run(run.store().drain());
    for (tern::slice_id id = 0; id < run.store().slices(); ++id)
        for (tern::device* d : run.devices()) {
            CHECK(run.store().state(id, d->memory().where()) != tern::copy_state::arriving);
            run.store().evict(id, *d);
        }
    for (tern::device* d : run.devices()) {
        CAPTURE(d->name());
        run.ctx().pool(*d).trim();
        CHECK(run.store().cached(*d) == 0_B);
    }
    CHECK(run.accelerator()->memory().budget().used() == 0_B);
    CHECK(run.pinned_ram().budget().used() == 0_B);
    CHECK(run.staging().budget().used() == 0_B);
    CHECK(run.ram().budget().used() == 0_B);
}

struct counts {
    std::uint64_t arrivals = 0;
    std::uint64_t evictions = 0;
};

counts count(test::model& m) {
    counts c{m.run().store().counters().arrivals, 0};
    for (tern::device* d : m.run().devices()) c.evictions += m.run().store().counters(*d).evictions;
    return c;
}

void fuzz(const char* name, unsigned seed, bool during) {
    std::printf("%s, seed %u, %s\n", name, seed, during ? "during passes" : "between passes");
    CAPTURE(name);
    CAPTURE(seed);
    CAPTURE(during);
    const std::string path = file(name);
    std::vector<float> expected;
    {
        test::model plain(path, {.threads = 1});
        writing w(plain);
        bool ended = false;
        plain.run().loop().run(w.all(ended));
        expected = std::move(w.logits);
    }
    REQUIRE(expected.size() % tokens == 0);
    const std::unique_ptr<tern::disk_reader> disk =
        seed % 3 == 0 ? nullptr : tern::open_reader({.threads = 2, .direct = seed % 3 == 1, .kind = "pread"});
    test::model m(path, tight(path, disk.get(), 1 + seed % 2));
    const tern::on_miss ways[] = {tern::on_miss::fetch, tern::on_miss::compute, tern::on_miss::split};
    m.run().ctx().treat_misses(tern::miss_policy(ways[seed / 3 % 3]), &m.run().time());
    if (seed % 2 == 0) m.place(tern::all_cpu{});
    {
        writing w(m);
        mover moves(m, seed);
        m.run().loop().run(moves.some(20));
        if (during) {
            bool ended = false;
            m.run().loop().run(tern::when_all(moves.until(ended), w.all(ended)));
        } else {
            for (std::size_t i = 0; i < tokens; ++i) {
                m.run().loop().run(w.step());
                m.run().loop().run(moves.some(8));
            }
        }
        CHECK(test::same_bits(w.logits, expected));
        CHECK(moves.acts() > tokens);
        CHECK(count(m).arrivals > 20);
        for (tern::device* d : m.run().devices()) CHECK(d->memory().budget().peak() <= d->memory().budget().limit());
    }
    check_empty(m);
}

} // namespace

TEST_CASE("model/migration: slices that move between passes leave the logits as they are") {
    for (unsigned seed = 1; seed <= 6; ++seed)
        for (const char* name : {"llama_tied", "llama_moe"}) fuzz(name, seed, false);
}

TEST_CASE("model/migration: slices that move during passes leave the logits as they are") {
    for (unsigned seed = 1; seed <= 12; ++seed)
        for (const char* name : {"llama_tied", "llama_moe", "gemma3", "gpt_oss_ramp"}) fuzz(name, seed, true);
}

TEST_CASE("model/migration: the memories are small enough for copies to leave for others") {
    std::uint64_t evictions = 0;
    const std::string path = file("llama_moe");
    for (unsigned seed = 1; seed <= 3; ++seed) {
        test::model m(path, tight(path, nullptr, 1));
        writing w(m);
        mover moves(m, seed);
        bool ended = false;
        m.run().loop().run(tern::when_all(moves.until(ended), w.all(ended)));
        evictions += count(m).evictions;
    }
    CHECK(evictions > 0);
}
