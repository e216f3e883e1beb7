// Replaces operator new, to count what the sampler allocates.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <new>

#include <tern/kernel/sample.hpp>

namespace {
std::size_t allocations = 0;
}

// Not inlined, or the compiler sees malloc's pointer given to delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
    ++allocations;
    if (void* p = std::malloc(size ? size : 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

TEST_CASE("kernel/sample_alone: after the first token nothing is allocated") {
    std::vector<float> logits(1000), copy(1000);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
    const std::int32_t recent[] = {1, 2, 3};
    for (const tern::kernel::sampling& how : {tern::kernel::sampling{},
                                              {.temperature = 1},
                                              {.temperature = 1, .top_k = 40, .repetition_penalty = 1.1f},
                                              {.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f},
                                              {.temperature = 1, .top_p = 0.5f}}) {
        tern::kernel::sampler next{how};
        copy = logits;
        next(copy, recent);
        next.top_probabilities(logits, 5);
        const std::size_t before = allocations;
        for (int i = 0; i < 20; ++i) {
            copy = logits;
            next(copy, recent);
            next.top_probabilities(logits, 5);
        }
        CHECK(allocations == before);
    }
}
