#include <support/precompiled.hpp>

TERN_TEST_CACHES(template)
