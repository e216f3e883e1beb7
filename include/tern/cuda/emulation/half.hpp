// __half and __nv_bfloat16 under CUDA's names. As with __CUDA_NO_HALF_CONVERSIONS__ and __CUDA_NO_HALF_OPERATORS__
// there are no implicit conversions and no operators: what compiles here compiles there.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <tern/cuda/emulation/vector_types.hpp>

// NOLINTBEGIN: the names are CUDA's.
struct __half {
    std::uint16_t bits;
};
struct alignas(4) __half2 {
    __half x, y;
};
struct __nv_bfloat16 {
    std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline unsigned short __half_as_ushort(__half h) { return h.bits; }
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b) { return b.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }

inline float __half2float(__half h) {
    const unsigned sign = (h.bits & 0x8000u) << 16, exponent = (h.bits >> 10) & 31u, fraction = h.bits & 0x3FFu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13));
    const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                          : std::bit_cast<float>(((exponent + 112) << 23) | (fraction << 13));
    return sign != 0 ? -magnitude : magnitude;
}
/// To nearest, ties to even; a NaN becomes the one NaN that the hardware gives.
inline __half __float2half_rn(float value) {
    const unsigned bits = std::bit_cast<unsigned>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    const float magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFu);
    if (magnitude != magnitude) return {0x7FFF};
    if (magnitude >= 65520.0f) return {static_cast<std::uint16_t>(sign | 0x7C00u)};
    if (magnitude < 0x1p-14f) { // a multiple of 2^-24; nearbyint rounds ties to even
        const auto steps = static_cast<unsigned>(std::nearbyint(magnitude * 0x1p24f));
        return {static_cast<std::uint16_t>(sign | steps)};
    }
    const unsigned m = bits & 0x7FFFFFFFu;
    const unsigned rounded = (m + 0xFFFu + ((m >> 13) & 1u)) >> 13;
    return {static_cast<std::uint16_t>(sign | (rounded - (112u << 10)))};
}
inline __half __float2half(float value) { return __float2half_rn(value); }
inline float __bfloat162float(__nv_bfloat16 b) { return std::bit_cast<float>(unsigned{b.bits} << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    const unsigned bits = std::bit_cast<unsigned>(value);
    if (value != value) return {0x7FFF};
    return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }

inline float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half_rn(x), __float2half_rn(y)}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half h) { return {h, h}; }
inline __half2 __float2half2_rn(float x) { return __half2half2(__float2half_rn(x)); }
inline __half __low2half(__half2 h) { return h.x; }
inline __half __high2half(__half2 h) { return h.y; }
inline float __low2float(__half2 h) { return __half2float(h.x); }
inline float __high2float(__half2 h) { return __half2float(h.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 b) { return {__bfloat162float(b.x), __bfloat162float(b.y)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

// A sum or product of two is exact enough in f32 that rounding twice is rounding once.
inline __half __hadd(__half a, __half b) { return __float2half_rn(__half2float(a) + __half2float(b)); }
inline __half __hsub(__half a, __half b) { return __float2half_rn(__half2float(a) - __half2float(b)); }
inline __half __hmul(__half a, __half b) { return __float2half_rn(__half2float(a) * __half2float(b)); }
inline __half __hneg(__half a) { return {static_cast<std::uint16_t>(a.bits ^ 0x8000u)}; }
inline bool __hlt(__half a, __half b) { return __half2float(a) < __half2float(b); }
inline bool __hgt(__half a, __half b) { return __half2float(a) > __half2float(b); }
inline bool __heq(__half a, __half b) { return __half2float(a) == __half2float(b); }
inline bool __hisnan(__half a) { return (a.bits & 0x7FFFu) > 0x7C00u; }
/// a b + c with one rounding. The sum in f64 is rounded to odd in f32, so that the last rounding decides alone.
inline __half __hfma(__half a, __half b, __half c) {
    const double exact = std::fma(double{__half2float(a)}, double{__half2float(b)}, double{__half2float(c)});
    auto narrow = static_cast<float>(exact);
    if (std::isfinite(narrow) && double{narrow} != exact) {
        unsigned bits = std::bit_cast<unsigned>(narrow);
        if (std::fabs(double{narrow}) > std::fabs(exact)) --bits;
        narrow = std::bit_cast<float>(bits | 1u);
    }
    return __float2half_rn(narrow);
}
inline __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __float2bfloat16_rn(__bfloat162float(a) + __bfloat162float(b));
}
inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __float2bfloat16_rn(__bfloat162float(a) * __bfloat162float(b));
}
// NOLINTEND
