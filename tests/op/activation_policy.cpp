#include <tern/op/activation_policy.hpp>

#include <string>

#include <doctest/doctest.h>

TEST_CASE("op/activation_policy: names there and back, and an error that says what is known") {
    for (const auto policy : {tern::activation_policy::f32, tern::activation_policy::q8})
        CHECK(tern::activation_policy_named(name_of(policy)) == policy);
    try {
        static_cast<void>(tern::activation_policy_named("int8"));
        FAIL("int8 was taken");
    } catch (const tern::config_error& e) {
        CHECK(std::string(e.what()).find("f32 or q8, not \"int8\"") != std::string::npos);
    }
}
