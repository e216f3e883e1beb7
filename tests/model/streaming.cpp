// Placement never changes the answer: the same bits with each policy, wherever the weights come from, however files are
// read and misses are treated; inside the budgets, which are known before anything is loaded.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/memory/open_reader.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace {

namespace test = tern::test;
using namespace tern::literals;

const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
const tern::location ram{tern::tier_of<tern::pageable>, 0, 0};

const std::vector<std::int32_t> prompt{1, 17, 50, 3, 99, 44, 20, 5, 61};
constexpr std::size_t tokens = 16;

std::string file(const char* name) { return test::source_file(std::string("tests/data/logits/") + name + ".gguf"); }

/// The logits after a prompt, then after three tokens one by one.
std::vector<float> answer(test::model& m) {
    tern::contiguous_cache kv = m.cache(tokens);
    tern::batch b;
    b.add(prompt);
    std::vector<float> all = m.logits(b, kv);
    for (const std::int32_t token : {7, 20, 7}) {
        const std::vector<float> row = m.logits(std::vector<std::int32_t>{token}, kv);
        all.insert(all.end(), row.begin(), row.end());
    }
    return all;
}

/// How files are read; the last is not on every machine.
constexpr const char* kinds[] = {"none", "pread", "pread, direct", "io_uring"};

/// A reader keeps files open by their addresses: each model gets one of its own.
std::unique_ptr<tern::disk_reader> reader(const std::string& kind) {
    if (kind == "none") return nullptr;
    try {
        return tern::open_reader({.threads = 2, .direct = kind != "pread", .kind = kind.substr(0, kind.find(','))});
    } catch (const tern::unsupported_error&) { return nullptr; }
}

/// Bytes of the largest slice, and of the largest expert's three.
std::uint64_t largest_slice(const tern::graph& g) {
    std::uint64_t largest = 0;
    for (const tern::planned_tensor& t : g.tensors) largest = std::max(largest, t.slice_size.count);
    return largest;
}

/// Room for the activations and a window or a few experts.
tern::bytes small_room(const tern::graph& g) {
    return {g.activation_room().count + 3 * (largest_slice(g) + 2 * 4096) + 16 * 1024};
}

struct trial {
    tern::tier_info from;
    std::string read;
    tern::bytes vram;
    std::size_t threads;

    tern::runtime_options options(tern::disk_reader* disk) const {
        return {.threads = threads, .ram = 64_MiB, .pinned = 4_MiB, .vram = vram, .disk = disk};
    }
};

/// Loads by a policy and checks answer and budgets.
template <class Policy>
void run(const std::string& path, const trial& t, const Policy& policy, const std::vector<float>& expected,
         tern::on_miss how = tern::on_miss::fetch) {
    const std::string_view name = Policy::name;
    CAPTURE(name);
    CAPTURE(t.from.name);
    CAPTURE(t.read);
    CAPTURE(t.vram.count);
    CAPTURE(t.threads);
    const std::unique_ptr<tern::disk_reader> disk = reader(t.read);
    if (!disk && t.read != "none") return;
    test::model m(path, t.options(disk.get()));
    m.run().ctx().treat_misses(tern::miss_policy(how), &m.run().time());
    m.place(policy);
    for (int pass = 0; pass < 2; ++pass) CHECK(test::same_bits(answer(m), expected));
    CHECK(m.run().ram().budget().peak() <= 64_MiB);
    if (t.vram.count != 0) CHECK(m.run().accelerator()->memory().budget().peak() <= t.vram);
}

/// Calls `each` with every source, way of reading, size of vram and number of threads.
template <class Each> void over_all(const tern::graph& g, Each each) {
    for (const tern::tier_info& from : {tern::tier_of<tern::mapped>, tern::tier_of<tern::direct>,
                                        tern::tier_of<tern::pageable>, tern::tier_of<tern::pinned>})
        for (const char* kind : kinds)
            for (const tern::bytes room : {0_B, small_room(g), 4_MiB})
                for (const std::size_t threads : {1u, 2u}) each(trial{from, kind, room, threads});
}

/// The budget_error that `work` throws, if it throws one.
template <class Work> std::optional<tern::budget_error> shortage(Work work) {
    try {
        work();
    } catch (const tern::budget_error& e) { return e; }
    return std::nullopt;
}

} // namespace

TEST_CASE("model/streaming: layer_stream gives the bits of the mapped model from every source, memory and reader") {
    for (const char* name : {"llama_tied", "llama_moe", "gemma3"}) {
        test::model plain(file(name), {.threads = 1});
        const std::vector<float> expected = answer(plain);
        over_all(plain.record(),
                 [&](const trial& t) { run(file(name), t, tern::layer_stream{.from = t.from}, expected); });
    }
}

TEST_CASE("model/streaming: expert_offload gives the same bits, whatever is done about misses") {
    for (const char* name : {"llama_moe", "qwen3moe"}) {
        test::model plain(file(name), {.threads = 1});
        const std::vector<float> expected = answer(plain);
        over_all(plain.record(), [&](const trial& t) {
            for (const tern::on_miss how : {tern::on_miss::fetch, tern::on_miss::compute, tern::on_miss::split})
                run(file(name), t, tern::expert_offload{.from = t.from}, expected, how);
        });
    }
}

TEST_CASE("model/streaming: splits by layer and by fit give the same bits beside every source on the host") {
    for (const char* name : {"llama_untied", "llama_moe"}) {
        test::model plain(file(name), {.threads = 1});
        const std::vector<float> expected = answer(plain);
        over_all(plain.record(), [&](const trial& t) {
            if (t.from == tern::tier_of<tern::direct>) return; // where nothing stays
            run(file(name), t, tern::first_fit{.rest = t.from}, expected);
            if (t.vram != 4_MiB) return;
            for (const std::size_t layers : {0u, 1u, 100u})
                run(file(name), t, tern::layer_split{.layers = layers, .rest = t.from}, expected);
        });
    }
}

TEST_CASE("model/streaming: a budget that passes the check holds the run, and one that does not says what is missing") {
    for (const char* name : {"llama_tied", "llama_moe"}) {
        CAPTURE(name);
        test::model plain(file(name), {.threads = 1});
        const std::vector<float> expected = answer(plain);
        const tern::graph g = plain.record(prompt.size());
        const std::uint64_t cache = tern::contiguous_cache::bytes_for(plain.config().cache_for(tokens)).count;
        for (const char* kind : {"none", "pread, direct"}) {
            CAPTURE(kind);
            std::size_t refused = 0;
            std::size_t ran = 0;
            const std::uint64_t all = cache + g.activation_room().count + g.weight_bytes().count + 300'000;
            for (std::uint64_t budget = 4096; budget < all; budget += all / 61) {
                CAPTURE(budget);
                const std::unique_ptr<tern::disk_reader> disk = reader(kind);
                test::model m(file(name), {.threads = 1, .ram = {budget}, .disk = disk.get()});
                m.run().reserve({cache});
                const auto load = [&] { m.run().load(tern::layer_stream{}.place(g, m.run().machine()), g); };
                if (const auto error = shortage(load)) {
                    ++refused;
                    CHECK(ran == 0); // more is never too little
                    CHECK(error->needed() > error->available());
                    CHECK(std::string(error->what()).find("pageable") != std::string::npos);
                    CHECK(m.run().store().counters().arrivals == 0); // it was known before anything was loaded
                    continue;
                }
                ++ran;
                CHECK(test::same_bits(answer(m), expected));
                CHECK(m.run().ram().budget().peak().count <= budget);
            }
            CHECK(refused > 0);
            CHECK(ran > 0);
        }
    }
}

TEST_CASE("model/streaming: the least RAM that passes the check holds a long text, whatever earlier passes left") {
    constexpr std::size_t length = 190;
    std::vector<std::int32_t> text;
    for (std::size_t i = 0; i < length; ++i) text.push_back(static_cast<std::int32_t>(i * 7 % 60 + 1));
    // A prompt of an odd size, then token by token over several pages of the cache.
    const auto write = [&](test::model& m) {
        tern::paged_cache kv(m.run().ram(), m.config().cache_for(length), 16);
        std::vector<float> last = m.logits(std::vector<std::int32_t>(text.begin(), text.begin() + 109), kv);
        for (std::size_t i = 109; i < length; ++i) last = m.logits(std::vector<std::int32_t>{text[i]}, kv);
        return last;
    };
    for (const char* name : {"gpt_oss", "llama_moe", "qwen3", "gemma3"}) {
        CAPTURE(name);
        test::model plain(file(name), {.threads = 1});
        const std::vector<float> expected = write(plain);
        const tern::graph g = plain.record(128);
        const tern::bytes cache = tern::paged_cache::bytes_for(plain.config().cache_for(length), 16);
        const auto run_in = [&](std::uint64_t ram) {
            test::model m(file(name), {.threads = 1, .ram = {ram}});
            m.run().reserve(cache);
            const auto error = shortage([&] { m.run().load(tern::all_cpu{}.place(g, m.run().machine()), g); });
            if (!error) CHECK(test::same_bits(write(m), expected));
            return error;
        };
        const auto refused = run_in(1);
        REQUIRE(refused);
        const std::uint64_t least = refused->needed().value_or(0);
        for (const std::uint64_t more : {0u, 63u, 4097u, 20'000u}) {
            CAPTURE(more);
            CHECK_FALSE(run_in(least + more));
        }
    }
}

TEST_CASE("model/streaming: the least RAM that passes the check holds direct reads of whole pages") {
    const std::string path = test::source_file("examples/data/tiny.gguf");
    test::model plain(path, {.threads = 1});
    const std::vector<float> expected = answer(plain);
    const tern::graph g = plain.record(prompt.size());
    const std::uint64_t cache = tern::contiguous_cache::bytes_for(plain.config().cache_for(tokens)).count;
    const std::uint64_t least = cache + g.activation_room().count + largest_slice(g);
    for (std::uint64_t more = 0; more <= 5 * 4096; more += 1024) {
        CAPTURE(more);
        const std::unique_ptr<tern::disk_reader> disk = reader("pread, direct");
        test::model m(path, {.threads = 1, .ram = {least + more}, .disk = disk.get()});
        m.run().reserve({cache});
        const auto error = shortage([&] { m.run().load(tern::layer_stream{}.place(g, m.run().machine()), g); });
        CHECK(error.has_value() == (more < 2 * 4096));
        if (!error) CHECK(test::same_bits(answer(m), expected));
    }
}

TEST_CASE("model/streaming: the least window is found by the check to a page, and one page less is refused by name") {
    test::model plain(file("llama_tied"), {.threads = 1});
    const std::vector<float> expected = answer(plain);
    const tern::graph g = plain.record(prompt.size());
    const auto refused = [&](std::uint64_t budget) {
        CAPTURE(budget);
        const std::unique_ptr<tern::disk_reader> disk = reader("pread, direct");
        test::model m(file("llama_tied"), {.threads = 2, .vram = {budget}, .disk = disk.get()});
        const auto error = shortage([&] { m.run().load(tern::layer_stream{}.place(g, m.run().machine()), g); });
        if (!error) CHECK(test::same_bits(answer(m), expected));
        return error;
    };
    const std::uint64_t one = g.activation_room().count + largest_slice(g);
    const std::uint64_t three = one + 2 * largest_slice(g) + 6 * 4096;
    for (std::uint64_t budget = three; budget < three + 400'000; budget += 9973) CHECK(!refused(budget));
    std::uint64_t low = 4096;
    std::uint64_t high = three;
    while (high - low > 1) (refused((low + high) / 2) ? low : high) = (low + high) / 2;
    CHECK(high == one);
    const auto error = refused(low);
    REQUIRE(error);
    CHECK(*error->needed() - *error->available() == 1);
    CHECK(error->tensor() == "token_embd.weight"); // the largest
    CHECK(std::string(error->what()).find("vram:0") != std::string::npos);
}

TEST_CASE("model/streaming: estimated bytes of weights are what is counted, and cache and scratch are bounded") {
    for (const char* name : {"examples/data/tiny.gguf", "examples/data/tiny-moe.gguf"}) {
        CAPTURE(name);
        test::model m(test::source_file(name), {.threads = 2, .vram = 32_MiB});
        const tern::graph g = m.record(prompt.size());
        const tern::placement p = tern::layer_stream{}.place(g, m.run().machine());
        m.run().load(p, g);
        const tern::budget& there = m.run().accelerator()->memory().budget();
        const auto estimated = static_cast<double>(p.bytes_at(g, vram).count);
        CHECK(static_cast<double>(there.requested().count) == estimated);
        CHECK(static_cast<double>(there.used().count) <= 1.01 * estimated); // aligned
        const std::uint64_t host = m.run().ram().budget().used().count;
        CHECK(host == p.bytes_at(g, ram).count);
        tern::paged_cache kv(m.run().ram(), m.config().cache_for(tokens), 4);
        tern::batch b;
        b.add(prompt);
        static_cast<void>(m.logits(b, kv));
        while (kv.length(0) < tokens) static_cast<void>(m.logits(std::vector<std::int32_t>{5}, kv));
        const std::uint64_t cache = tern::paged_cache::bytes_for(m.config().cache_for(tokens), 4).count;
        const std::uint64_t scratch = g.activation_room().count;
        std::printf("%s: activations estimated %llu, in vram %llu, in ram with staging %llu beside %llu of cache\n",
                    name, static_cast<unsigned long long>(scratch),
                    static_cast<unsigned long long>(there.peak().count - p.bytes_at(g, vram).count),
                    static_cast<unsigned long long>(m.run().ram().budget().peak().count - host - cache),
                    static_cast<unsigned long long>(cache));
        CHECK(m.run().ram().budget().used().count >= host + cache);
        CHECK(there.peak().count <= estimated * 1.01 + static_cast<double>(scratch));
    }
}

TEST_CASE("model/streaming: where everything fits a second pass moves nothing but activations") {
    for (const char* name : {"llama_tied", "llama_moe"}) {
        CAPTURE(name);
        const std::unique_ptr<tern::disk_reader> disk = reader("pread");
        test::model m(file(name), {.threads = 1, .ram = 1_GiB, .disk = disk.get()});
        m.place(tern::layer_stream{});
        const std::vector<float> first = answer(m);
        const tern::residency_counters before = m.run().store().counters();
        const tern::bytes read = disk->counters().read;
        CHECK(read.count > 0);
        CHECK(test::same_bits(answer(m), first));
        CHECK(m.run().store().counters().arrivals == before.arrivals);
        CHECK(disk->counters().read == read);
    }
}
