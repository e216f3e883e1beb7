// flags: -ffast-math
// expect: tern needs NaN and infinity: compile without -ffast-math
#include <tern/base/config.hpp>

int main() { return tern::version == 0; }
