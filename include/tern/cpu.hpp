// The fast CPU kernels. Include this in one translation unit (in several is no error), or link tern::cpu_kernels: the
// kernel table is then filled when the program starts. Which instructions are used is found at run time; the
// environment variable TERN_CPU (reference, avx2) overrides it.
#pragma once

#include <tern/kernel/cpu/fill.hpp>

namespace tern {

/// True where the table was filled.
inline const bool cpu_kernels_filled = kernel::cpu::fill_at_start();

} // namespace tern
