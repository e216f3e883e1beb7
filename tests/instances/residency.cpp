#include <support/precompiled.hpp>

TERN_TEST_RESIDENCY(template)
