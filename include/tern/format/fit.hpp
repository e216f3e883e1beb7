// The searches for scales that the encoders of block formats share. Each minimises the sum of squared errors.
#pragma once

#include <cstdint>

#include <tern/format/half.hpp>

namespace tern::detail {

/// The largest finite binary16, and the bits of a NaN.
inline constexpr double f16_largest = 65504;
inline constexpr std::uint16_t f16_nan = 0x7E00;

/// A scale as binary16, saturated: a block whose scale is too large decodes to large numbers, not to infinities.
inline std::uint16_t scale_bits(double scale) noexcept {
    const double held = scale > f16_largest ? f16_largest : scale < -f16_largest ? -f16_largest : scale;
    return f32_to_f16(static_cast<float>(held));
}

/// An offset as the block gives it back.
inline float stored_offset(double offset) noexcept { return f16_to_f32(scale_bits(offset)); }

/// A scale as the block gives it back. One that would vanish becomes the smallest there is: small numbers may still
/// find codes for it.
inline float stored_scale(double scale) noexcept {
    const float held = stored_offset(scale);
    return held != 0 || scale == 0 ? held : scale < 0 ? -0x1p-24f : 0x1p-24f;
}

/// Copies `n` numbers, held within +-1e9, above all that a binary16 scale reaches, so that no sum loses its small part;
/// false where one of them is NaN or infinite.
inline bool copy_finite(const float* in, float* out, int n) noexcept {
    bool finite = true;
    for (int i = 0; i < n; ++i) {
        finite &= (bits_of(in[i]) & 0x7F800000u) != 0x7F800000u;
        out[i] = in[i] > 1e9f ? 1e9f : in[i] < -1e9f ? -1e9f : in[i];
    }
    return finite;
}

/// The whole number next to `v` in [low, high]; a NaN gives low.
inline int nearest(float v, int low, int high) noexcept {
    const float l = static_cast<float>(low), h = static_cast<float>(high);
    const float inside = !(v > l) ? l : v > h ? h : v;
    return static_cast<int>(inside + (inside < 0 ? -0.5f : 0.5f));
}

inline float inverse(float scale) noexcept { return scale == 0 ? 0.0f : 1.0f / scale; }

/// Evenly spaced levels low..high. A level set has `pick(v)`: the level next to v; its ends; and the width of a step.
struct even_levels {
    int low, high;
    float step = 1;

    float pick(float v) const noexcept { return static_cast<float>(nearest(v, low, high)); }
};

/// The sum of squared errors of x against scale * level.
template <class Levels> double scale_error(const float* x, int n, float scale, const Levels& levels) noexcept {
    const float inv = inverse(scale);
    double sum = 0;
    for (int i = 0; i < n; ++i) {
        const double e = static_cast<double>(x[i]) - static_cast<double>(scale * levels.pick(x[i] * inv));
        sum += e * e;
    }
    return sum;
}

/// The least-squares scale for the levels that `scale` picks; 0 where all of them are 0.
template <class Levels> float refit_scale(const float* x, int n, float scale, const Levels& levels) noexcept {
    const float inv = inverse(scale);
    double xl = 0, ll = 0;
    for (int i = 0; i < n; ++i) {
        const double l = static_cast<double>(levels.pick(x[i] * inv));
        xl += static_cast<double>(x[i]) * l;
        ll += l * l;
    }
    return ll > 0 ? static_cast<float>(xl / ll) : 0.0f;
}

/// The scale that gives the smallest error found when x is stored as scale * level. Tried are scales that take the
/// number of largest magnitude near either end of the levels, and their least-squares improvement. `stored` maps a
/// scale to what the block can hold.
template <class Levels, class Stored>
float fit_scale(const float* x, int n, const Levels& levels, Stored stored) noexcept {
    float peak = 0;
    for (int i = 0; i < n; ++i)
        if ((x[i] < 0 ? -x[i] : x[i]) > (peak < 0 ? -peak : peak)) peak = x[i];
    float best = 0;
    if (peak == 0) return best;
    double best_error = scale_error(x, n, best, levels);
    const auto attempt = [&](float scale) {
        const float held = stored(scale);
        const double error = scale_error(x, n, held, levels);
        if (error < best_error) best = held, best_error = error;
    };
    constexpr int tries = 8;
    const int ends[] = {levels.low, levels.high};
    for (const int end : ends) {
        for (int t = -tries; t <= tries; ++t) {
            const float shift = levels.step * static_cast<float>(t) / static_cast<float>(tries);
            const float scale = peak / (static_cast<float>(end) + shift);
            attempt(scale);
            attempt(refit_scale(x, n, scale, levels));
        }
    }
    attempt(refit_scale(x, n, best, levels));
    return best;
}

/// x is about scale * q + offset.
struct affine {
    float scale = 0;
    float offset = 0;
};

inline int affine_pick(float x, const affine& a, float inv, int high) noexcept {
    return nearest((x - a.offset) * inv, 0, high);
}

struct affine_loss {
    double squares = 0;
    double largest = 0; // largest magnitude of an error
};

inline affine_loss affine_error(const float* x, int n, const affine& a, int high) noexcept {
    const float inv = inverse(a.scale);
    affine_loss loss;
    for (int i = 0; i < n; ++i) {
        const float y = a.scale * static_cast<float>(affine_pick(x[i], a, inv, high)) + a.offset;
        const double e = static_cast<double>(x[i]) - static_cast<double>(y);
        loss.squares += e * e;
        loss.largest = e > loss.largest ? e : -e > loss.largest ? -e : loss.largest;
    }
    return loss;
}

/// The least-squares line through the picks of `a`; an offset above `ceiling` is held there.
inline affine refit_affine(const float* x, int n, const affine& a, int high, float ceiling) noexcept {
    const float inv = inverse(a.scale);
    double sx = 0, sq = 0, sxq = 0, sqq = 0;
    for (int i = 0; i < n; ++i) {
        const double q = affine_pick(x[i], a, inv, high), v = static_cast<double>(x[i]);
        sx += v, sq += q, sxq += v * q, sqq += q * q;
    }
    const double determinant = n * sqq - sq * sq;
    if (determinant <= 0) return a;
    affine fitted{static_cast<float>((n * sxq - sx * sq) / determinant),
                  static_cast<float>((sqq * sx - sq * sxq) / determinant)};
    if (fitted.offset > ceiling)
        fitted = {static_cast<float>((sxq - static_cast<double>(ceiling) * sq) / sqq), ceiling};
    return fitted;
}

/// Calls `attempt(affine)` with candidates: lines from the smallest to the largest number, a little steeper and
/// flatter, and their least-squares improvements. The first is the plain rule. Offsets stay at or below `ceiling`.
template <class Attempt>
void for_each_affine(const float* x, int n, int high, float ceiling, Attempt attempt) noexcept {
    float low = x[0], top = x[0];
    for (int i = 1; i < n; ++i) low = x[i] < low ? x[i] : low, top = x[i] > top ? x[i] : top;
    if (low > ceiling) low = ceiling;
    constexpr int tries = 8;
    for (int t = 0; t <= 2 * tries; ++t) {
        const float shift = static_cast<float>(t % 2 ? (t + 1) / 2 : -t / 2) / static_cast<float>(tries);
        affine line{(top - low) / (static_cast<float>(high) + shift), low};
        attempt(line);
        for (int round = 0; round < 2; ++round) attempt(line = refit_affine(x, n, line, high, ceiling));
    }
}

} // namespace tern::detail
