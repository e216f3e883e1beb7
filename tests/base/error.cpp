#include <tern/base/error.hpp>

#include <string>

#include <doctest/doctest.h>

using namespace tern;

TEST_CASE("base/error: the message names path, tensor and bytes") {
    const parse_error e("is cut", {.path = "a.gguf", .tensor = "w", .needed = 8, .available = 5});
    CHECK(std::string(e.what()) == "a.gguf: tensor \"w\": is cut (needed 8 bytes, available 5 bytes)");
    CHECK(e.path() == "a.gguf");
    CHECK(e.tensor() == "w");
    CHECK(e.needed() == 8u);
    CHECK(e.available() == 5u);
}

TEST_CASE("base/error: what a file holds neither breaks the line nor commands the terminal") {
    const std::string hostile = "\x1b[31m\n\x7f\xc3\xa9";
    const parse_error e("unknown \"" + hostile + "\"", {.path = hostile, .tensor = hostile});
    const std::string shown = "?[31m??\xc3\xa9";
    CHECK(std::string(e.what()) == shown + ": tensor \"" + shown + "\": unknown \"" + shown + "\"");
    CHECK(e.path() == hostile); // as it is
}

TEST_CASE("base/error: a message stays short") {
    const std::string longest(1000, 'x');
    CHECK(std::string(error(longest).what()) == longest);
    const error e(std::string(100000, 'x'), {.path = "a", .needed = 1});
    CHECK(std::string(e.what()) == "a: " + longest + "... (needed 1 bytes)");
}
