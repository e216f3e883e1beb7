#include <tern/plan/on_miss.hpp>

#include <doctest/doctest.h>

TEST_CASE("plan/on_miss: three words") {
    CHECK(tern::parse_on_miss("fetch") == tern::on_miss::fetch);
    CHECK(tern::parse_on_miss("compute") == tern::on_miss::compute);
    CHECK(tern::parse_on_miss("split") == tern::on_miss::split);
    CHECK_THROWS_AS(tern::parse_on_miss("Fetch"), tern::config_error);
}
