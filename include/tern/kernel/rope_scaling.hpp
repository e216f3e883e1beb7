// The frequencies of rotary embedding: plain ones, and the known ways to stretch them over a longer context. Pure
// functions that run once, when a model is opened. A way of the user's own is another function that returns a
// rope_frequencies.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <tern/base/error.hpp>

#include <tern/kernel/rope_frequencies.hpp>

namespace tern::kernel {

/// Positions divided by a factor. Source: Chen and others, "Extending context window ... via position interpolation",
/// 2023.
struct linear_rope {
    double factor;
};

/// Low frequencies divided by a factor, high ones kept, a smooth step between. Source: the reference code of Llama 3.1.
struct llama3_rope {
    double factor;           // 8 for Llama 3.1
    double low_freq_factor;  // 1
    double high_freq_factor; // 4
    double original_context; // 8192
};

/// Interpolation of the pairs that turn less than beta_slow times in the original context, none for those that turn
/// more than beta_fast times, a ramp over the pair's index between. Source: Peng and others, "YaRN", 2023, section 3.2,
/// with the bounds of the ramp found as the authors' code does.
struct yarn_rope {
    double factor;
    double original_context;
    double beta_fast = 32;
    double beta_slow = 1;
    double magnitude = 0;     // 0: 0.1 ln(factor) + 1, the paper's equation 22
    bool whole_bounds = true; // round the bounds of the ramp to whole pairs outwards
};

/// A divisor for each pair's frequency, for example the tensor rope_freqs.weight of a GGUF file.
struct listed_rope {
    std::span<const float> factors; // [dims / 2]
    double magnitude = 1;
};

namespace detail {
inline void check_rope(bool good, const char* what) {
    if (!good) throw config_error(std::string("rotary embedding: ") + what + "; check the model's rope settings");
}
} // namespace detail

/// The magnitude of yarn: 0.1 * mscale * ln(factor) + 1 above factor 1, else 1.
inline double yarn_magnitude(double factor, double mscale = 1) {
    return factor > 1 ? 0.1 * mscale * std::log(factor) + 1 : 1.0;
}

/// Plain frequencies: base^(-2i / dims). Source: Su and others, "RoFormer", 2021, section 3.2.2.
/// Throws config_error where dims is odd or 0, or base is not a positive number.
///
///     auto f = rope_frequencies_of(128, 10000.0);   // f.inv_freq[0] == 1
inline rope_frequencies rope_frequencies_of(std::size_t dims, double base) {
    detail::check_rope(dims > 0 && dims % 2 == 0, "the number of rotated dimensions must be even and not 0");
    detail::check_rope(base > 0 && std::isfinite(base), "the base must be a positive number");
    rope_frequencies out;
    out.inv_freq.resize(dims / 2);
    for (std::size_t i = 0; i < dims / 2; ++i)
        out.inv_freq[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    return out;
}

/// Linear scaling: each frequency divided by the factor.
inline rope_frequencies rope_frequencies_of(std::size_t dims, double base, const linear_rope& scaling) {
    detail::check_rope(scaling.factor > 0 && std::isfinite(scaling.factor), "the factor must be a positive number");
    rope_frequencies out = rope_frequencies_of(dims, base);
    for (double& f : out.inv_freq) f /= scaling.factor;
    return out;
}

/// The scaling of Llama 3: by wavelength 2 pi / f against original_context / low_freq_factor and / high_freq_factor.
inline rope_frequencies rope_frequencies_of(std::size_t dims, double base, const llama3_rope& scaling) {
    detail::check_rope(scaling.factor > 0 && std::isfinite(scaling.factor), "the factor must be a positive number");
    detail::check_rope(scaling.original_context > 0, "the original context must be positive");
    detail::check_rope(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor,
                       "the low frequency factor must be positive and below the high one");
    rope_frequencies out = rope_frequencies_of(dims, base);
    for (double& f : out.inv_freq) {
        // How often the pair turns in the original context.
        const double turns = scaling.original_context * f / (2 * 3.14159265358979323846);
        double keep = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
        keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
        f = (1 - keep) * f / scaling.factor + keep * f;
    }
    return out;
}

/// The scaling of YaRN.
inline rope_frequencies rope_frequencies_of(std::size_t dims, double base, const yarn_rope& scaling) {
    detail::check_rope(scaling.factor > 0 && std::isfinite(scaling.factor), "the factor must be a positive number");
    detail::check_rope(scaling.original_context > 0, "the original context must be positive");
    detail::check_rope(scaling.beta_slow > 0 && scaling.beta_fast > scaling.beta_slow,
                       "beta_slow must be positive and below beta_fast");
    detail::check_rope(base != 1, "the base must not be 1 with yarn");
    rope_frequencies out = rope_frequencies_of(dims, base);
    // The (fractional) pair that turns `turns` times in the original context.
    const auto pair_of = [&](double turns) {
        return static_cast<double>(dims) * std::log(scaling.original_context / (turns * 2 * 3.14159265358979323846)) /
               (2 * std::log(base));
    };
    double low = pair_of(scaling.beta_fast), high = pair_of(scaling.beta_slow);
    if (scaling.whole_bounds) low = std::floor(low), high = std::ceil(high);
    const double last = static_cast<double>(dims - 1);
    low = low < 0 ? 0 : low;
    high = high > last ? last : high;
    if (low == high) high += 0.001; // a step instead of a division by 0
    for (std::size_t i = 0; i < out.inv_freq.size(); ++i) {
        double ramp = (static_cast<double>(i) - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        out.inv_freq[i] = out.inv_freq[i] / scaling.factor * ramp + out.inv_freq[i] * (1 - ramp);
    }
    out.magnitude = scaling.magnitude > 0 ? scaling.magnitude : yarn_magnitude(scaling.factor);
    return out;
}

/// Listed divisors, one for each pair. Throws shape_error where there are not dims / 2 of them, config_error where one
/// is not a positive number.
inline rope_frequencies rope_frequencies_of(std::size_t dims, double base, const listed_rope& scaling) {
    rope_frequencies out = rope_frequencies_of(dims, base);
    if (scaling.factors.size() != dims / 2)
        throw shape_error("rotary embedding: " + std::to_string(scaling.factors.size()) + " factors for " +
                          std::to_string(dims / 2) + " pairs; check the model's rope settings");
    for (std::size_t i = 0; i < out.inv_freq.size(); ++i) {
        detail::check_rope(scaling.factors[i] > 0 && std::isfinite(scaling.factors[i]),
                           "each listed factor must be a positive number");
        out.inv_freq[i] /= static_cast<double>(scaling.factors[i]);
    }
    out.magnitude = scaling.magnitude;
    return out;
}

} // namespace tern::kernel
