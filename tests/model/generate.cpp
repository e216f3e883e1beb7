#include <tern/model/generate.hpp>
#include <tern/op/sampler.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <support/data.hpp>
#include <support/model.hpp>

namespace test = tern::test;

namespace {

using ints = std::vector<std::int32_t>;

const ints prompt{3, 17, 99, 4, 51, 8, 8, 23, 64, 1, 0, 77};

/// Generates greedily into `history`; `on_token` decides how long.
template <class Cache, class OnToken>
void go(test::model& m, Cache& kv, ints& history, tern::generate_options options, OnToken on_token) {
    tern::sampler greedy{{}};
    m.run().loop().run(tern::generate(m.run().ctx(), m.decode(), kv, history, greedy, options, on_token));
}

const auto always = [](std::int32_t) { return true; };

/// Given away by its moves, and so by its last copy only.
struct owner {
    std::unique_ptr<int> left;
    bool* ended;

    owner(int n, bool& e) : left(std::make_unique<int>(n)), ended(&e) {}
    owner(owner&&) = default;
    ~owner() {
        if (left) *ended = true;
    }
    bool operator()(std::int32_t) { return --*left > 0; }
};

/// A caller that is a coroutine itself.
tern::task<void> from_a_coroutine(test::model& m, tern::contiguous_cache& kv, ints& history, std::vector<ints>& told) {
    tern::sampler greedy{{}};
    const tern::generate_options options{.tokens = 20};
    co_await tern::generate(m.run().ctx(), m.decode(), kv, history, greedy, options,
                            [&told, own = ints{}](std::int32_t id) mutable {
                                own.push_back(id);
                                told.push_back(own);
                                return own.size() < 3;
                            });
}

} // namespace

TEST_CASE("model/generate: the pieces of the prompt do not change the tokens") {
    test::model m(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1});
    const ints expected = m.greedy(prompt, 10);
    for (const std::size_t size : {1u, 3u, 64u}) {
        CAPTURE(size);
        tern::contiguous_cache kv = m.cache(32);
        ints history = prompt;
        ints told;
        go(m, kv, history, {.tokens = 10, .prefill_batch = size}, [&](std::int32_t id) {
            told.push_back(id);
            CHECK(history.back() == id);
            return true;
        });
        CHECK(told == expected);
        CHECK(history.size() == prompt.size() + 10);
        CHECK(kv.length(0) == history.size() - 1); // the last token was not fed
    }
}

TEST_CASE("model/generate: it stops when on_token says so, and goes on from what the cache holds") {
    test::model m(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1});
    const ints expected = m.greedy(prompt, 8);
    tern::contiguous_cache kv = m.cache(40, 2);
    ints history = prompt;
    int left = 3;
    go(m, kv, history, {.tokens = 20, .sequence = 1}, [&](std::int32_t) { return --left > 0; });
    REQUIRE(history.size() == prompt.size() + 3);
    CHECK(kv.length(0) == 0);
    CHECK(kv.length(1) == prompt.size() + 2);
    ints rest{history.back()}; // what the cache has not seen
    go(m, kv, rest, {.tokens = 5, .sequence = 1}, always);
    history.insert(history.end(), rest.begin() + 1, rest.end());
    CHECK(ints(history.begin() + static_cast<std::ptrdiff_t>(prompt.size()), history.end()) == expected);
    ints nothing = prompt;
    go(m, kv, nothing, {.tokens = 0}, always);
    CHECK(nothing == prompt);
    CHECK(kv.length(0) == prompt.size());
}

TEST_CASE("model/generate: an empty prompt, an empty prefill batch and a full context are refused") {
    test::model m(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1});
    tern::contiguous_cache kv = m.cache(15);
    ints history;
    CHECK_THROWS_AS(go(m, kv, history, {}, always), tern::config_error);
    history = prompt;
    CHECK_THROWS_AS(go(m, kv, history, {.prefill_batch = 0}, always), tern::config_error);
    CHECK(kv.length(0) == 0);
    CHECK_THROWS_AS(go(m, kv, history, {.sequence = 1}, always), tern::shape_error);
    ints told;
    CHECK_THROWS_AS(go(m, kv, history, {.tokens = 10},
                       [&](std::int32_t id) {
                           told.push_back(id);
                           return true;
                       }),
                    tern::budget_error);
    CHECK(told == m.greedy(prompt, 4)); // 12 of the prompt and 3 that were fed
    CHECK(kv.length(0) == 15);
    ints wrong{3, 128};
    kv.truncate(0, 0);
    CHECK_THROWS_AS(go(m, kv, wrong, {}, always), tern::shape_error);
    CHECK(kv.length(0) == 0);
}

TEST_CASE("model/generate: a throw in on_token or a stop leaves a cache that goes on") {
    test::model m(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1});
    const ints expected = m.greedy(prompt, 8);
    tern::contiguous_cache kv = m.cache(40);
    ints history = prompt;
    CHECK_THROWS_AS(go(m, kv, history, {.tokens = 20},
                       [&](std::int32_t) {
                           if (history.size() == prompt.size() + 3) throw std::runtime_error("enough");
                           return true;
                       }),
                    std::runtime_error);
    CHECK(kv.length(0) == history.size() - 1);

    std::stop_source stop;
    m.run().ctx().stop_with(stop.get_token());
    ints rest{history.back()};
    CHECK_THROWS_AS(go(m, kv, rest, {.tokens = 20},
                       [&](std::int32_t) {
                           if (rest.size() == 3) stop.request_stop();
                           return true;
                       }),
                    tern::stopped_error);
    m.run().ctx().stop_with({});
    history.insert(history.end(), rest.begin() + 1, rest.end());
    CHECK(kv.length(0) == history.size() - 1); // the failed pass is forgotten

    ints end{history.back()};
    go(m, kv, end, {.tokens = 3}, always);
    history.insert(history.end(), end.begin() + 1, end.end());
    CHECK(ints(history.begin() + static_cast<std::ptrdiff_t>(prompt.size()), history.end()) == expected);
}

TEST_CASE("model/generate: a temporary on_token lives in the task, until that ends") {
    test::model m(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1});
    const ints expected = m.greedy(prompt, 3);
    tern::contiguous_cache kv = m.cache(40);
    tern::sampler greedy{{}};
    ints history = prompt;
    bool ended = false;
    {
        // What was given here is gone when the task first runs.
        tern::task<void> later =
            tern::generate(m.run().ctx(), m.decode(), kv, history, greedy, {.tokens = 20}, owner(3, ended));
        CHECK(!ended);
        m.run().loop().run(std::move(later));
    }
    CHECK(ended);
    const ints given(history.begin() + static_cast<std::ptrdiff_t>(prompt.size()), history.end());
    CHECK(given == expected);

    kv.truncate(0, 0);
    history = prompt;
    std::vector<ints> told;
    m.run().loop().run(from_a_coroutine(m, kv, history, told));
    REQUIRE(told.size() == 3);
    CHECK(told.back() == expected);
}

TEST_CASE("model/generate: on_token is a copy, unless a reference is asked for") {
    test::model m(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1});
    tern::contiguous_cache kv = m.cache(40);
    tern::sampler greedy{{}};
    struct counter {
        int calls = 0;
        bool operator()(std::int32_t) { return ++calls < 3; }
    } count;
    ints history = prompt;
    m.run().loop().run(tern::generate(m.run().ctx(), m.decode(), kv, history, greedy, {.tokens = 20}, count));
    CHECK(count.calls == 0);
    CHECK(history.size() == prompt.size() + 3);
    kv.truncate(0, 0);
    history = prompt;
    m.run().loop().run(tern::generate(m.run().ctx(), m.decode(), kv, history, greedy, {.tokens = 20}, std::ref(count)));
    CHECK(count.calls == 3);
    CHECK(history.size() == prompt.size() + 3);
}
