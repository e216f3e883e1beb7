#include <doctest/doctest.h>

#include "../q8_support.hpp"
#include "codes_support.hpp"

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;

TEST_CASE("kernel/cpu/codes_k: any bytes give the whole numbers and scales of integer_form") {
    if (!has_avx2()) return;
    check_codes<q2_k>();
    check_codes<q3_k>();
    check_codes<q4_k>();
    check_codes<q5_k>();
    check_codes<q6_k>();
}

#endif
