#include <tern/cost/profile_json.hpp>

#include <string>

#include <doctest/doctest.h>

using namespace tern::literals;

namespace {

const std::string small = R"({
  "machine": "m; \"host\"",
  "launches": [{"processor": "host", "seconds": 1e-6}],
  "runs": [{"op": "linear", "format": "q8_0", "processor": "host", "tokens": 1.5, "size": 1000, "seconds": 3e-5},
           {"op": "add", "processor": "host", "tokens": 8, "size": 12, "seconds": 2e-6}],
  "moves": [{"from": "pageable", "to": "vram:0", "what": "weights", "size": 7, "others": 2, "seconds": 1e-5},
            {"from": "vram:0", "to": "pinned", "what": "activations", "size": 8, "seconds": 2e-5}]
})";

std::string refused(const std::string& text, const std::string& by) {
    std::string changed = small;
    changed.replace(changed.find(text), text.size(), by);
    try {
        tern::parse_profile(changed, "p.json");
        return "it is accepted";
    } catch (const tern::parse_error& e) { return e.what(); }
}

} // namespace

TEST_CASE("cost/profile_json: a profile is read, and what is written reads back equal") {
    const tern::profile p = tern::parse_profile(small, "p.json");
    CHECK(p.machine == "m; \"host\"");
    CHECK(p.launches.at(0).time == tern::seconds{1e-6});
    CHECK(p.runs.at(0).format == "q8_0");
    CHECK(p.runs.at(0).tokens == 1.5);
    CHECK(p.runs.at(0).size == 1000);
    CHECK(p.runs.at(1).format.empty());
    CHECK(p.moves.at(0).others == 2);
    CHECK(p.moves.at(0).to == tern::location{tern::tier_of<tern::vram>, 0, 0});
    CHECK(p.moves.at(1).what == tern::cargo::activations);
    CHECK(p.moves.at(1).time == tern::seconds{2e-5});
    const std::string text = tern::to_json(p);
    const tern::profile again = tern::parse_profile(text);
    CHECK(tern::to_json(again) == text);
    CHECK(again.runs.at(0).time == p.runs.at(0).time);
    CHECK(again.moves.at(0).from == p.moves.at(0).from);
    CHECK(tern::to_json(tern::parse_profile(tern::to_json(tern::profile{}))) == tern::to_json(tern::profile{}));
}

TEST_CASE("cost/profile_json: hostile input is refused with the file and the key") {
    CHECK(refused("\"op\": \"add\"", "\"oq\": \"add\"") == "p.json: runs[1].oq: is an unknown key");
    CHECK(refused("3e-5", "-3e-5").find("p.json: runs[0].seconds") == 0);
    CHECK(refused("3e-5", "0").find("p.json: runs[0].seconds") == 0);
    CHECK(refused("1.5", "0").find("runs[0].tokens") != std::string::npos);
    CHECK(refused("1000", "-1").find("runs[0].size") != std::string::npos);
    CHECK(refused("\"pinned\"", "\"pined\"").find("moves[1].to") != std::string::npos);
    CHECK(refused("\"weights\"", "\"gold\"").find("moves[0].what") != std::string::npos);
    CHECK(refused("\"others\": 2", "\"others\": 1001").find("moves[0].others") != std::string::npos);
    CHECK(refused("1e-6", "-1e-6").find("launches[0].seconds") != std::string::npos);
    CHECK(refused("\"machine\": \"m; \\\"host\\\"\",", "").find("machine: is absent") != std::string::npos);
    for (std::size_t n = 0; n < small.size() - 2; ++n)
        CHECK_THROWS_AS(tern::parse_profile(small.substr(0, n)), tern::parse_error);
    std::string many = R"({"machine": "", "launches": [)";
    for (int i = 0; i < 10'001; ++i) many += (i == 0 ? "" : ",") + std::string(R"({"processor": "", "seconds": 0})");
    CHECK_THROWS_AS(tern::parse_profile(many + "]}"), tern::parse_error);
}
