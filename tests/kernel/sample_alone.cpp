// Replaces operator new, to count what the sampler allocates.
#include <doctest/doctest.h>

#include <cmath>

#include <tern/kernel/sample.hpp>

#include "support/allocations.hpp"

using tern::test::allocations;

TEST_CASE("kernel/sample_alone: operator new is counted") { tern::test::check_allocations_count(); }

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
        const long before = allocations;
        for (int i = 0; i < 20; ++i) {
            copy = logits;
            next(copy, recent);
            next.top_probabilities(logits, 5);
        }
        CHECK(allocations == before);
    }
}
