#include <tern/base/json_fields.hpp>

#include <string>

#include <doctest/doctest.h>

#include <tern/base/json.hpp>

using namespace tern;

namespace {

/// The message of the parse_error that `f` throws; empty where it throws none.
template <class F> std::string message(F f) {
    try {
        f();
        return {};
    } catch (const parse_error& e) { return e.what(); }
}

} // namespace

TEST_CASE("base/json_fields: values of the right kind and range are read") {
    const json_value v = parse_json(R"({"a": "x", "b": true, "c": 7, "d": [1], "e": 0.5, "f": 0, "g": 3})");
    const json_fields in(v, "f.json", "", {"a", "b", "c", "d", "e", "f", "g", "h"});
    CHECK(in.string("a") == "x");
    CHECK(in.boolean("b"));
    CHECK(in.uint64("c") == 7);
    CHECK(in.array("d").size() == 1);
    CHECK(in.positive("e") == 0.5);
    CHECK(in.not_negative("f") == 0);
    CHECK(in.positive("g") == 3);
    CHECK(in.find_positive("e") == 0.5);
    CHECK(!in.find_positive("h"));
    CHECK(!in.find_not_negative("h"));
    CHECK(in.has("a"));
    CHECK(!in.has("h"));
}

TEST_CASE("base/json_fields: what is refused names the file and the way to the key") {
    const json_value v = parse_json(R"({"a": "x", "n": -1, "z": 0, "f": 1.5})");
    const json_fields in(v, "f.json", "links[2]", {"a", "n", "z", "f"});
    CHECK(message([&] { in.uint64("a"); }) == "f.json: links[2].a: expected an integer of at least 0, found a string");
    CHECK(message([&] { in.uint64("n"); }) != "");
    CHECK(message([&] { in.uint64("f"); }) != "");
    CHECK(message([&] { in.not_negative("n"); }) == "f.json: links[2].n: expected a number of at least 0");
    CHECK(message([&] { in.positive("z"); }) == "f.json: links[2].z: expected a number above 0");
    CHECK(message([&] { in.positive("a"); }) == "f.json: links[2].a: expected a number, found a string");
    CHECK(message([&] { in.string("n"); }) != "");
    CHECK(message([&] { in.boolean("a"); }) != "");
    CHECK(message([&] { in.array("a"); }) != "");
    CHECK(message([&] { in.at("q"); }) == "f.json: links[2].q: is absent");
    CHECK(message([&] {
              json_fields(v, "f.json", "links[2]", {"a", "n", "z"});
          }) == "f.json: links[2].f: is an unknown key");
    CHECK(message([&] { json_fields(v.at("a"), "f.json", "", {}); }) ==
          "f.json: the root: expected an object, found a string");
    CHECK(in.way_to("a") == "links[2].a");
}
