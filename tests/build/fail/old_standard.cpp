// flags: -std=c++17
// expect: tern needs C\+\+20
#include <tern/base/config.hpp>

int main() { return tern::version == 0; }
