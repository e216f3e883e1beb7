#include <support/precompiled.hpp>

TERN_TEST_DEVICES(template)
