// CUDA's qualifiers for the host compiler. `__shared__` makes a variable static: the threads of a block share it, and
// one block runs at a time. `__noinline__` is left alone, since the standard library uses the name.
#pragma once

// NOLINTBEGIN: the names are CUDA's.
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// NOLINTEND
