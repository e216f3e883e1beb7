// How activations enter products with weights: the one policy of a run that changes its numbers.
#pragma once

#include <string>
#include <string_view>

#include <tern/base/error.hpp>

namespace tern {

/// With either one results are the same bits for every placement, number of threads and size of batch.
enum class activation_policy {
    f32, ///< as they are: the reference
    /// Rounded to 8 bits in groups of 32 where the weight's format has an integer form (kernel/integer_form.hpp), once
    /// for each operator; products with other formats stay f32.
    q8,
};

constexpr std::string_view name_of(activation_policy policy) noexcept {
    return policy == activation_policy::q8 ? "q8" : "f32";
}

/// The policy of a name. Throws config_error.
///
///     run.ctx().compute_with(tern::activation_policy_named("q8"));
inline activation_policy activation_policy_named(std::string_view name) {
    if (name == "f32") return activation_policy::f32;
    if (name == "q8") return activation_policy::q8;
    throw config_error("activations are f32 or q8, not \"" + std::string(name) + "\"");
}

} // namespace tern
