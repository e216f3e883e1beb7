// Build configuration: the version, the one macro TERN_HOST_DEVICE, and the checks that hold for every header.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "tern needs C++20: compile with -std=c++20 or newer"
#endif

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ && !defined(TERN_ALLOW_FINITE_MATH)
#error "tern needs NaN and infinity: compile without -ffast-math and -ffinite-math-only"
#endif

/// Marks a function that compiles for the host and, under nvcc, inside a CUDA kernel too.
#if defined(__CUDACC__)
#define TERN_HOST_DEVICE __host__ __device__
#else
#define TERN_HOST_DEVICE
#endif

namespace tern {

/// The version of the library; `major * 10000 + minor * 100 + patch`.
inline constexpr int version = 100;

} // namespace tern
