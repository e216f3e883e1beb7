#include <tern/cost/machine_json.hpp>

#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include <tern/cost/presets.hpp>
#include <tern/cost/roofline.hpp>

using namespace tern::literals;

namespace {

const std::string small = R"({
  "name": "mine",
  "memories": [
    {"where": "pageable", "budget": "unlimited", "bandwidth": 4e10, "bus": "dram", "capacity": 1000},
    {"where": "pinned#1", "budget": 500, "in_ram": true, "reserved": 20},
    {"where": "vram:3", "budget": 100, "bandwidth": "unlimited"}],
  "processors": [
    {"name": "cpu", "kind": "cpu", "device": 0, "reads": ["pageable", "pinned#1"], "f32": 1e11, "launch": 2e-6},
    {"name": "gpu", "kind": "accelerator", "device": 3, "reads": ["vram:3"], "f16": 1e13, "int8": 2e13, "sync": 0}],
  "links": [{"from": "pageable", "to": "vram:3", "bandwidth": 3e10, "latency": 1e-5, "bus": "pcie"},
            {"from": "vram:3", "to": "pageable"}]
})";

/// The message of the error for a machine that is `small` with one text in place of another.
std::string refused(const std::string& text, const std::string& by) {
    std::string changed = small;
    const std::size_t at = changed.find(text);
    REQUIRE(at != changed.npos);
    changed.replace(at, text.size(), by);
    try {
        tern::parse_machine(changed, "m.json");
    } catch (const tern::parse_error& e) {
        CHECK(e.path() == "m.json");
        return e.what();
    }
    return "it is accepted";
}

bool equal(const tern::machine& a, const tern::machine& b) { return tern::to_json(a) == tern::to_json(b); }

} // namespace

TEST_CASE("cost/machine_json: what is there is read, what is left out is unknown") {
    const tern::machine m = tern::parse_machine(small, "m.json");
    CHECK(m.name == "mine");
    REQUIRE(m.memories.size() == 3);
    CHECK(m.memories[0].where == tern::location{tern::tier_of<tern::pageable>, 0, 0});
    CHECK(m.memories[0].budget == tern::unlimited);
    CHECK(m.memories[0].bandwidth == 40_GBps);
    CHECK(m.memories[0].bus == "dram");
    CHECK(m.memories[0].capacity == 1000_B);
    CHECK(!m.memories[0].in_ram);
    CHECK(m.memories[1].where == tern::location{tern::tier_of<tern::pinned>, 0, 1});
    CHECK(m.memories[1].room() == 480_B);
    CHECK(m.memories[1].in_ram);
    CHECK(!m.memories[1].bandwidth);
    CHECK(m.memories[2].where == tern::location{tern::tier_of<tern::vram>, 3, 0});
    CHECK(m.memories[2].bandwidth == tern::bytes_per_second{});
    REQUIRE(m.processors.size() == 2);
    CHECK(m.processors[0].kind == tern::processor_kind::cpu);
    CHECK(m.processors[0].reads.size() == 2);
    CHECK(m.processors[0].rates.f32 == 1e11);
    CHECK(!m.processors[0].rates.f16);
    CHECK(m.processors[0].launch == tern::seconds{2e-6});
    CHECK(!m.processors[0].sync);
    CHECK(m.processors[1].device == 3);
    CHECK(m.processors[1].sync == tern::seconds{});
    REQUIRE(m.links.size() == 2);
    CHECK(m.links[0].bandwidth == 30_GBps);
    CHECK(m.links[0].latency == tern::seconds{1e-5});
    CHECK(m.links[0].bus == "pcie");
    CHECK(!m.links[1].bandwidth);
    CHECK(m.links[1].bus.empty());
    CHECK(tern::parse_machine("{}").memories.empty());
}

TEST_CASE("cost/machine_json: what is written reads back equal") {
    tern::machine m = tern::parse_machine(small, "m.json");
    m.links[0].latency = tern::seconds{1.0 / 3};
    m.memories[1].budget = {~std::uint64_t{0} - 1};
    const tern::machine again = tern::parse_machine(tern::to_json(m));
    CHECK(equal(again, m));
    CHECK(again.links[0].latency == m.links[0].latency);
    CHECK(again.memories[1].budget == m.memories[1].budget);
    CHECK(again.memories[0].budget == tern::unlimited);
    CHECK(again.memories[2].where == m.memories[2].where);
    for (const char* name : {"rtx3060_laptop", "rtx4090_64g", "rtx6000_ada_nvme", "h100", "h200", "cpu2"}) {
        CAPTURE(name);
        const tern::machine preset = tern::machines::named(name).value();
        const tern::machine read = tern::parse_machine(tern::to_json(preset));
        CHECK(equal(read, preset));
        REQUIRE(read.links.size() == preset.links.size());
        for (std::size_t i = 0; i < read.links.size(); ++i) CHECK(read.links[i].bandwidth == preset.links[i].bandwidth);
        for (std::size_t i = 0; i < read.processors.size(); ++i)
            CHECK(read.processors[i].rates.f32 == preset.processors[i].rates.f32);
    }
}

TEST_CASE("cost/machine_json: hostile input is refused with the file and the key") {
    CHECK(refused("\"bus\": \"pcie\"", "\"buss\": \"pcie\"") == "m.json: links[0].buss: is an unknown key");
    CHECK(refused("\"name\": \"mine\"", "\"title\": 1") == "m.json: title: is an unknown key");
    CHECK(refused("4e10", "0").find("m.json: memories[0].bandwidth") == 0);
    CHECK(refused("4e10", "-1").find("memories[0].bandwidth") != std::string::npos);
    CHECK(refused("4e10", "1e999").find("too large") != std::string::npos);
    CHECK(refused("4e10", "\"fast\"").find("memories[0].bandwidth") != std::string::npos);
    CHECK(refused("4e10", "null").find("memories[0].bandwidth") != std::string::npos);
    CHECK(refused("\"unlimited\"", "\"much\"").find("memories[0].budget") != std::string::npos);
    CHECK(refused("\"budget\": 500", "\"budget\": -500").find("memories[1].budget") != std::string::npos);
    CHECK(refused("\"budget\": 500", "\"budget\": 1.5").find("memories[1].budget") != std::string::npos);
    CHECK(refused("\"budget\": 500", "\"budget\": 18446744073709551616").find("budget") != std::string::npos);
    CHECK(refused("\"budget\": 500, ", "").find("memories[1].budget: is absent") != std::string::npos);
    CHECK(refused("\"in_ram\": true", "\"in_ram\": 1").find("memories[1].in_ram") != std::string::npos);
    CHECK(refused("pinned#1\", \"b", "hbm\", \"b").find("\"hbm\" is no location") != std::string::npos);
    for (const char* bad : {"pinned#", "pinned:", "pinned:x", "pinned#1x", "pinned#1:0", "pinned:99999", "", "#1"})
        CHECK(refused("\"pinned#1\", \"b", "\"" + std::string(bad) + "\", \"b").find("memories[1].where") !=
              std::string::npos);
    CHECK(refused("\"kind\": \"cpu\"", "\"kind\": \"npu\"").find("processors[0].kind") != std::string::npos);
    CHECK(refused("\"device\": 3", "\"device\": 123456789012").find("processors[1].device") != std::string::npos);
    CHECK(refused("1e11", "-1e11").find("processors[0].f32") != std::string::npos);
    CHECK(refused("\"sync\": 0", "\"sync\": -1").find("processors[1].sync") != std::string::npos);
    CHECK(refused("[\"vram:3\"]", "[3]").find("processors[1].reads") != std::string::npos);
    CHECK(refused("[\"vram:3\"]", "[]").find("processors[1].reads") != std::string::npos);
    CHECK(refused("[\"vram:3\"]", "[\"vram:2\"]").find("no memory vram:2") != std::string::npos);
    CHECK(refused("\"name\": \"gpu\"", "\"name\": \"cpu\"").find("there twice") != std::string::npos);
    CHECK(refused("\"name\": \"gpu\"", "\"name\": \"\"").find("processors[1].name") != std::string::npos);
    CHECK(refused("vram:3\", \"budget", "pageable\", \"budget").find("there twice") != std::string::npos);
    CHECK(refused("\"to\": \"vram:3\"", "\"to\": \"vram:4\"").find("no memory vram:4") != std::string::npos);
    CHECK(refused("\"to\": \"vram:3\"", "\"to\": \"pageable\"").find("to itself") != std::string::npos);
    CHECK(refused("{\"from\": \"vram:3\", \"to\": \"pageable\"}", "{\"from\": \"pageable\", \"to\": \"vram:3\"}")
              .find("there twice") != std::string::npos);
    CHECK(refused("\"links\": [", "\"links\": 3, \"x\": [").find("m.json: x") == 0);
    CHECK(refused("\"links\"", "\"processors\"").find("twice") != std::string::npos);
    CHECK_THROWS_AS(tern::parse_machine("[]"), tern::parse_error);
    CHECK_THROWS_AS(tern::parse_machine(""), tern::parse_error);
    for (std::size_t n = 0; n < small.size() - 2; ++n)
        CHECK_THROWS_AS(tern::parse_machine(small.substr(0, n)), tern::parse_error);
    std::string many = R"({"memories": [)";
    for (int i = 0; i < 1001; ++i)
        many += (i == 0 ? "" : ",") + std::string(R"({"where": "vram:)") + std::to_string(i) + R"(", "budget": 1})";
    CHECK_THROWS_AS(tern::parse_machine(many + "]}"), tern::parse_error);
}

TEST_CASE("cost/machine_json: tiers of one's own are known where they are named") {
    const tern::tier_info shared{"shared", tern::reach::host};
    const std::string text = R"({"memories": [{"where": "shared:2#1", "budget": 7}]})";
    CHECK_THROWS_AS(tern::parse_machine(text), tern::parse_error);
    const tern::machine m = tern::parse_machine(text, "", {&shared, 1});
    CHECK(m.memories.at(0).where == tern::location{shared, 2, 1});
    CHECK(equal(tern::parse_machine(tern::to_json(m), "", {&shared, 1}), m));
}

TEST_CASE("cost/machine_json: the example of the documents is a machine that a roofline can price") {
    const std::string text = tern::read_text_file(TERN_SOURCE_DIR "/docs/cost.md");
    const std::size_t begin = text.find("```json\n") + 8;
    REQUIRE(begin > 8);
    const tern::machine m = tern::parse_machine(text.substr(begin, text.find("```", begin) - begin), "docs/cost.md");
    CHECK(m.name == "a desktop");
    const tern::roofline cost(m);
    for (const tern::link& l : m.links)
        for (const tern::cargo what : {tern::cargo::weights, tern::cargo::activations})
            if (l.from.tier != tern::tier_of<tern::direct>)
                CHECK(cost.price(tern::move{l.from, l.to, 1_MiB, what}).count > 0);
    for (const tern::processor& p : m.processors)
        for (const tern::location& l : p.reads)
            CHECK(cost.price(tern::run{.op = "linear",
                                       .format = "q4_0",
                                       .processor = p.name,
                                       .reads = l,
                                       .weights = 1_MiB,
                                       .operations = 1e6})
                      .count > 0);
}
