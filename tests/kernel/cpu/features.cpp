#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include <tern/kernel/cpu/features.hpp>

using namespace tern::kernel::cpu;

TEST_CASE("kernel/cpu/features: a name chooses, an unknown one is refused and the choices are named") {
    CHECK(instructions_named("reference") == instruction_set::reference);
    CHECK(instructions_named("") == available_instructions());
    CHECK_THROWS_WITH_AS(instructions_named("sse9"), "TERN_CPU is \"sse9\": set it to reference or avx2, or unset it",
                         tern::config_error);
    if (available_instructions() == instruction_set::avx2)
        CHECK(instructions_named("avx2") == instruction_set::avx2);
    else
        CHECK_THROWS_AS(instructions_named("avx2"), tern::config_error);
}

TEST_CASE("kernel/cpu/features: the environment is asked") {
    const char* before = std::getenv("TERN_CPU");
    const std::string kept = before ? before : "";
    setenv("TERN_CPU", "reference", 1);
    CHECK(chosen_instructions() == instruction_set::reference);
    setenv("TERN_CPU", "AVX2", 1);
    CHECK_THROWS_AS(chosen_instructions(), tern::config_error);
    if (before)
        setenv("TERN_CPU", kept.c_str(), 1);
    else
        unsetenv("TERN_CPU");
}
