#include <support/precompiled.hpp>

TERN_TEST_RUNTIME(template)
