#include <doctest/doctest.h>

#include "../q8_support.hpp"
#include "codes_support.hpp"

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;

TEST_CASE("kernel/cpu/codes: any bytes give the whole numbers and scales of integer_form") {
    if (!has_avx2()) return;
    check_codes<q4_0>();
    check_codes<q4_1>();
    check_codes<q5_0>();
    check_codes<q5_1>();
    check_codes<q8_0>();
    check_codes<iq4_nl>();
    check_codes<mxfp4>();
}

#endif
