// expect: a tensor must be allowed to live in at least one tier
#include <tern/memory/tier.hpp>

#ifdef TERN_PASS
using memories = tern::tiers<tern::mapped>;
#else
using memories = tern::tiers<>;
#endif

int main() { return static_cast<int>(memories::size) - 1; }
