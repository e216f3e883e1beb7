// CUDA's vector types and built-in variables for the host compiler.
#pragma once

#include <cstdint>

// NOLINTBEGIN: the names are CUDA's.
#define TERN_EMULATED_VECTOR(T, name, a2, a4)                                                                          \
    struct name##1 { T x; };                                                                                           \
    struct alignas(a2) name##2 { T x, y; };                                                                            \
    struct name##3 { T x, y, z; };                                                                                     \
    struct alignas(a4) name##4 { T x, y, z, w; };                                                                      \
    constexpr name##1 make_##name##1(T x) { return {x}; }                                                              \
    constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                                      \
    constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                              \
    constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

TERN_EMULATED_VECTOR(signed char, char, 2, 4)
TERN_EMULATED_VECTOR(unsigned char, uchar, 2, 4)
TERN_EMULATED_VECTOR(short, short, 4, 8)
TERN_EMULATED_VECTOR(unsigned short, ushort, 4, 8)
TERN_EMULATED_VECTOR(int, int, 8, 16)
TERN_EMULATED_VECTOR(unsigned, uint, 8, 16)
TERN_EMULATED_VECTOR(float, float, 8, 16)
TERN_EMULATED_VECTOR(double, double, 16, 16)
TERN_EMULATED_VECTOR(long long, longlong, 16, 16)
TERN_EMULATED_VECTOR(unsigned long long, ulonglong, 16, 16)
#undef TERN_EMULATED_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// The thread that runs: set at each switch. One thread of the host runs kernels at a time.
inline uint3 threadIdx{};
inline uint3 blockIdx{};
inline dim3 blockDim{};
inline dim3 gridDim{};
inline constexpr int warpSize = 32;
// NOLINTEND
