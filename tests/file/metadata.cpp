#include <tern/file/metadata.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "file/bytes.hpp"

using namespace tern;
using namespace tern::test;

namespace {

model_metadata example() {
    std::vector<metadata_entry> entries;
    entries.push_back({"z.count", std::uint32_t{7}});
    entries.push_back({"a.name", std::string("tern")});
    entries.push_back({"add_bos", false});
    entries.push_back({"tokens", make_gguf_array(std::vector<std::string>{"x", "y"})});
    entries.push_back({"scores", make_gguf_array(std::vector<float>{1.5f})});
    return model_metadata(std::move(entries), "file.gguf");
}

} // namespace

TEST_CASE("file/metadata: keys are found, in file order") {
    const model_metadata data = example();
    CHECK(data.get<std::uint64_t>("z.count") == 7);
    CHECK(data.get<std::string>("a.name") == "tern");
    CHECK(data.strings("tokens") == std::vector<std::string>{"x", "y"});
    CHECK(data.get<std::vector<double>>("scores") == std::vector<double>{1.5});
    CHECK(data.entries()[0].key == "z.count");
    CHECK(data.find("nothing") == nullptr);
    CHECK(model_metadata().find("a") == nullptr);
}

TEST_CASE("file/metadata: absent is told apart from false and from the wrong type") {
    const model_metadata data = example();
    CHECK(data.try_get<bool>("add_bos") == false);
    CHECK_FALSE(data.try_get<bool>("add_eos").has_value());
    CHECK_FALSE(data.contains("add_eos"));
    CHECK_THROWS_AS(data.try_get<bool>("z.count"), parse_error);
    CHECK_THROWS_WITH_AS(data.get<bool>("add_eos"), "file.gguf: the metadata key \"add_eos\" is absent", parse_error);
    CHECK_THROWS_WITH_AS(data.get<std::uint8_t>("a.name"),
                         "file.gguf: the metadata key \"a.name\" is of type string, expected a number", parse_error);
    CHECK_THROWS_AS(data.strings("scores"), parse_error);
    CHECK_THROWS_AS(data.strings("a.name"), parse_error);
}

TEST_CASE("file/metadata: a key that is there twice is an error") {
    std::vector<metadata_entry> entries(2, {"twin", std::uint32_t{1}});
    CHECK(contains(message_of<parse_error>([&] { model_metadata(entries, "f"); }), "\"twin\" is there twice"));
}
