// expect: a list of formats names the same format twice
#include <tern/format/formats.hpp>

#ifdef TERN_PASS
using other = tern::q8_0;
#else
using other = tern::q4_0;
#endif

int main() { return tern::formats<tern::q4_0, tern::f32, other>::contains<tern::f32> ? 0 : 1; }
