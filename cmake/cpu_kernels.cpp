// The fast CPU kernels, compiled once for everybody who links tern::cpu_kernels.
#include <tern/cpu.hpp>

// The package asks the linker for this symbol; it comes with the initialisers that fill the kernel table.
extern "C" const int tern_cpu_kernels_linked = 1;
