// Which instructions this processor has, and which of them to use: found at run time, never from compiler flags.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <tern/base/error.hpp>

namespace tern::kernel::cpu {

/// What the kernels of this folder are written for. avx2 means AVX2, FMA and F16C, as every x86-64 server and desktop
/// since 2013 to 2015 has them.
enum class instruction_set { reference, avx2 };

constexpr std::string_view name_of(instruction_set set) noexcept {
    return set == instruction_set::avx2 ? "avx2" : "reference";
}

/// The best set that this processor has.
inline instruction_set available_instructions() noexcept {
#if defined(__x86_64__)
    // Not every compiler's __builtin_cpu_supports knows F16C: it is bit 29 of this register.
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && ((c >> 29) & 1u) != 0;
    if (f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return instruction_set::avx2;
#endif
    return instruction_set::reference;
}

/// The set that a name asks for; an empty name asks for the best one. Throws config_error where the name is unknown or
/// this processor lacks the set.
inline instruction_set instructions_named(std::string_view wanted) {
    if (wanted.empty()) return available_instructions();
    if (wanted == name_of(instruction_set::reference)) return instruction_set::reference;
    if (wanted != name_of(instruction_set::avx2))
        throw config_error("TERN_CPU is \"" + std::string(wanted) + "\": set it to reference or avx2, or unset it");
    if (available_instructions() != instruction_set::avx2)
        throw config_error(
            "TERN_CPU is avx2 and this processor has no AVX2, FMA and F16C: set it to reference, or unset it");
    return instruction_set::avx2;
}

/// The set to use: what the environment variable TERN_CPU names (reference, avx2), else the best one. Throws as
/// instructions_named does.
inline instruction_set chosen_instructions() {
    const char* wanted = std::getenv("TERN_CPU");
    return instructions_named(wanted ? wanted : "");
}

} // namespace tern::kernel::cpu
