// expect: this format is not in the list of formats
#include <tern/format/formats.hpp>

#ifdef TERN_PASS
using wanted = tern::f32;
#else
using wanted = tern::f16;
#endif

int main() { return static_cast<int>(tern::formats<tern::q4_0, tern::f32>::index_of<wanted>) - 1; }
