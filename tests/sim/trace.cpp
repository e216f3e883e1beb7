#include <tern/sim/trace.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/base/json.hpp>

TEST_CASE("sim/trace: a row for each device, times in microseconds from the first event") {
    const std::vector<tern::sim_event> events{{"cpu", "linear", {2.0}, {0.5}, 100},
                                              {"disk \"1\"", "read", {2.25}, {1e-6}, 4096},
                                              {"cpu", "add", {2.5}, {0.0}, 0}};
    const tern::json_value root = tern::parse_json(tern::chrome_trace(events), "trace");
    const auto all = root.at("traceEvents").array();
    REQUIRE(all.size() == 5);
    CHECK(all[0].at("name").as_string() == "linear");
    CHECK(all[0].at("ts").as_double() == 0);
    CHECK(all[0].at("dur").as_double() == doctest::Approx(0.5e6));
    CHECK(all[1].at("ts").as_double() == doctest::Approx(0.25e6));
    CHECK(all[1].at("args").at("bytes").as_double() == 4096);
    CHECK(all[1].at("tid").as_uint64() != all[0].at("tid").as_uint64());
    CHECK(all[2].at("tid").as_uint64() == all[0].at("tid").as_uint64());
    CHECK(all[4].at("args").at("name").as_string() == "disk \"1\"");
    CHECK(tern::parse_json(tern::chrome_trace({}), "empty").at("traceEvents").array().empty());
}
