#include <support/precompiled.hpp>

TERN_TEST_MEMORY(template)
