#include <cstdio>

#include <tern/base/config.hpp>
#include <tern/base/units.hpp>

int main() {
    using namespace tern::literals;
    std::printf("tern %d\n", tern::version);
    return to_string(3_MiB) == "3.0 MiB" ? 0 : 1;
}
