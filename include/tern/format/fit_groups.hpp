// The searches for the two-level scales of k-quants: one binary16 for 256 numbers, and small whole-number scales for
// groups of 16 or 32 of them. Every choice minimises the sum of squared errors of what decoding gives back.
#pragma once

#include <limits>

#include <tern/format/fit.hpp>

namespace tern::detail {

/// 256 numbers as d * scale[group] * code, all codes within low..high.
template <int Groups> struct symmetric_groups {
    static constexpr int size = 256 / Groups;
    int low, high;             ///< of the codes
    int scale_low, scale_high; ///< of the scales
    float d = 0;               ///< as stored
    int scale[Groups] = {};
    int code[256] = {};

    void fit(const float* x) noexcept {
        float wanted[Groups];
        float peak = 0;
        for (int g = 0; g < Groups; ++g) {
            wanted[g] = fit_scale(x + g * size, size, even_levels{low, high}, [](float s) { return s; });
            if ((wanted[g] < 0 ? -wanted[g] : wanted[g]) > (peak < 0 ? -peak : peak)) peak = wanted[g];
        }
        double best = std::numeric_limits<double>::infinity();
        const int ends[] = {scale_low, scale_high};
        for (const int end : ends) {
            float next = stored_scale(peak / static_cast<float>(end));
            for (int round = 0; round < 3; ++round) {
                int trial[Groups];
                const double error = choose(x, next, wanted, trial);
                if (error < best) {
                    best = error, d = next;
                    for (int g = 0; g < Groups; ++g) scale[g] = trial[g];
                }
                next = refit(x, next, trial);
            }
        }
        for (int i = 0; i < 256; ++i)
            code[i] = nearest(x[i] * inverse(d * static_cast<float>(scale[i / size])), low, high);
    }

private:
    /// The best scale of each group at a given d, next to the wanted one; returns the error.
    double choose(const float* x, float at, const float* wanted, int* chosen) const noexcept {
        double sum = 0;
        for (int g = 0; g < Groups; ++g) {
            const int centre = nearest(wanted[g] * inverse(at), scale_low, scale_high);
            double best = std::numeric_limits<double>::infinity();
            for (int s = centre - 1; s <= centre + 1; ++s) {
                if (s < scale_low || s > scale_high) continue;
                const double error =
                    scale_error(x + g * size, size, at * static_cast<float>(s), even_levels{low, high});
                if (error < best) best = error, chosen[g] = s;
            }
            sum += best;
        }
        return sum;
    }
    float refit(const float* x, float at, const int* scales) const noexcept {
        double xa = 0, aa = 0;
        for (int i = 0; i < 256; ++i) {
            const int s = scales[i / size];
            const double a = static_cast<double>(s) * nearest(x[i] * inverse(at * static_cast<float>(s)), low, high);
            xa += static_cast<double>(x[i]) * a;
            aa += a * a;
        }
        return aa > 0 ? stored_scale(xa / aa) : at;
    }
};

/// 256 numbers as d * scale[group] * code - dmin * minimum[group], all whole numbers from 0.
template <int Groups> struct affine_groups {
    static constexpr int size = 256 / Groups;
    int high;       ///< of the codes
    int scale_high; ///< of the scales and the minima
    float d = 0;    ///< as stored
    float dmin = 0; ///< as stored
    int scale[Groups] = {};
    int minimum[Groups] = {};
    int code[256] = {};

    /// Where every number is positive the block is fitted upside down: d and dmin become negative, so that the minima
    /// can lift the numbers.
    void fit(const float* in) noexcept {
        bool positive = true;
        for (int i = 0; i < 256; ++i) positive &= in[i] > 0;
        float x[256];
        for (int i = 0; i < 256; ++i) x[i] = positive ? -in[i] : in[i];
        fit_lines(x);
        for (int i = 0; i < 256; ++i) {
            const affine a = line(d, dmin, scale[i / size], minimum[i / size]);
            code[i] = affine_pick(x[i], a, inverse(a.scale), high);
        }
        if (positive) d = -d, dmin = -dmin;
    }

private:
    static affine line(float d, float dmin, int scale, int minimum) noexcept {
        return {d * static_cast<float>(scale), -(dmin * static_cast<float>(minimum))};
    }

    void fit_lines(const float* x) noexcept {
        affine wanted[Groups];
        float top_scale = 0, top_minimum = 0;
        for (int g = 0; g < Groups; ++g) {
            double best = std::numeric_limits<double>::infinity();
            for_each_affine(x + g * size, size, high, 0.0f, [&](const affine& a) {
                const double error = affine_error(x + g * size, size, a, high).squares;
                if (a.scale >= 0 && error < best) best = error, wanted[g] = a;
            });
            top_scale = wanted[g].scale > top_scale ? wanted[g].scale : top_scale;
            top_minimum = -wanted[g].offset > top_minimum ? -wanted[g].offset : top_minimum;
        }
        float next_d = stored_scale(top_scale / static_cast<float>(scale_high));
        float next_dmin = stored_scale(top_minimum / static_cast<float>(scale_high));
        double best = std::numeric_limits<double>::infinity();
        for (int round = 0; round < 4; ++round) {
            int scales[Groups], minima[Groups];
            const double error = choose(x, next_d, next_dmin, wanted, scales, minima);
            if (error < best) {
                best = error, d = next_d, dmin = next_dmin;
                for (int g = 0; g < Groups; ++g) scale[g] = scales[g], minimum[g] = minima[g];
            }
            refit(x, next_d, next_dmin, scales, minima);
        }
    }

    /// The best scale and minimum of each group at given d and dmin, next to the wanted ones; returns the error.
    double choose(const float* x, float at, float at_min, const affine* wanted, int* scales,
                  int* minima) const noexcept {
        double sum = 0;
        for (int g = 0; g < Groups; ++g) {
            const int s0 = nearest(wanted[g].scale * inverse(at), 0, scale_high);
            const int m0 = nearest(-wanted[g].offset * inverse(at_min), 0, scale_high);
            double best = std::numeric_limits<double>::infinity();
            for (int s = s0 > 0 ? s0 - 1 : 0; s <= s0 + 1 && s <= scale_high; ++s) {
                for (int m = m0 > 0 ? m0 - 1 : 0; m <= m0 + 1 && m <= scale_high; ++m) {
                    const double error = affine_error(x + g * size, size, line(at, at_min, s, m), high).squares;
                    if (error < best) best = error, scales[g] = s, minima[g] = m;
                }
            }
            sum += best;
        }
        return sum;
    }

    /// Least squares for d and dmin with scales, minima and codes held.
    void refit(const float* x, float& at, float& at_min, const int* scales, const int* minima) const noexcept {
        double xa = 0, xm = 0, aa = 0, am = 0, mm = 0;
        for (int i = 0; i < 256; ++i) {
            const int s = scales[i / size], m = minima[i / size];
            const affine held = line(at, at_min, s, m);
            const double a = static_cast<double>(s) * affine_pick(x[i], held, inverse(held.scale), high);
            const double v = static_cast<double>(x[i]);
            xa += v * a, xm -= v * m, aa += a * a, am -= a * m, mm += static_cast<double>(m) * m;
        }
        const double determinant = aa * mm - am * am;
        if (determinant > 0) {
            at = stored_scale((xa * mm - xm * am) / determinant);
            at_min = stored_scale((aa * xm - am * xa) / determinant);
        } else if (aa > 0) {
            at = stored_scale(xa / aa);
        } else if (mm > 0) {
            at_min = stored_scale(xm / mm);
        }
    }
};

} // namespace tern::detail
