// exp and tanh of eight floats at once. Both are computed the same way in every lane, so a number's result does not
// depend on its neighbours.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

namespace tern::kernel::cpu {

/// 2^n for whole n in -252 .. 254, in two factors so that denormal results and those near the largest come out right.
struct two_powers {
    __m256 first;
    __m256 second;
};

namespace detail {

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline two_powers power_of_two(__m256 n) {
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23))};
}

/// x = n ln 2 + rest with |rest| <= ln 2 / 2, and e^rest - 1 by its Taylor series to the eighth power: the remainder is
/// below 1e-9.
struct reduced {
    __m256 n;
    __m256 expm1;
};

[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline reduced reduce(__m256 x) {
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504089f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    // ln 2 in two parts, the first with few enough bits that n times it is exact.
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145751953125f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860682030941723e-6f), r);
    __m256 p = _mm256_set1_ps(1.0f / 40320);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 5040));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    return {n, _mm256_fmadd_ps(_mm256_mul_ps(p, r), r, r)};
}

} // namespace detail

/// e^x with a relative error below 2e-7 where the result is a normal number. Below -104 it is 0, above 88.73 infinity,
/// of NaN it is NaN.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 exp8(__m256 x) {
    // Of a NaN these two keep the second operand.
    const __m256 bounded = _mm256_min_ps(_mm256_set1_ps(89.0f), _mm256_max_ps(_mm256_set1_ps(-105.0f), x));
    const detail::reduced e = detail::reduce(bounded);
    const two_powers power = detail::power_of_two(e.n);
    return _mm256_mul_ps(_mm256_mul_ps(_mm256_add_ps(e.expm1, _mm256_set1_ps(1.0f)), power.first), power.second);
}

/// tanh with a relative error below 4e-7.
[[gnu::always_inline, gnu::target("avx2,fma,f16c")]] inline __m256 tanh8(__m256 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256 twice = _mm256_add_ps(_mm256_andnot_ps(sign, x), _mm256_andnot_ps(sign, x));
    const __m256 bounded = _mm256_min_ps(_mm256_set1_ps(20.0f), twice); // tanh(10) rounds to 1
    const detail::reduced e = detail::reduce(bounded);
    const two_powers power = detail::power_of_two(e.n);
    const __m256 two_to_n = _mm256_mul_ps(power.first, power.second);
    // e^(2|x|) - 1 without cancellation near 0, then t / (t + 2).
    const __m256 t = _mm256_fmadd_ps(two_to_n, e.expm1, _mm256_sub_ps(two_to_n, _mm256_set1_ps(1.0f)));
    const __m256 result = _mm256_div_ps(t, _mm256_add_ps(t, _mm256_set1_ps(2.0f)));
    return _mm256_or_ps(result, _mm256_and_ps(sign, x));
}

} // namespace tern::kernel::cpu

#endif
