#include <tern/file/gguf.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "file/bytes.hpp"

using namespace tern;
using namespace tern::test;

namespace {

struct shard {
    std::uint16_t number;
    std::uint16_t count;
    std::int32_t total;
    std::vector<std::string> names;
    std::string arch = {};

    std::string bytes() const {
        byte_builder b;
        b.header(names.size(), arch.empty() ? 3 : 4);
        if (!arch.empty()) b.key("general.architecture", gguf_value_type::string).string(arch);
        b.key("split.no", gguf_value_type::uint16).number(number);
        b.key("split.count", gguf_value_type::uint16).number(count);
        b.key("split.tensors.count", gguf_value_type::int32).number(total);
        for (std::size_t i = 0; i < names.size(); ++i) b.tensor(names[i], {8}, 0, 32 * i);
        return b.pad().zeros(32 * names.size()).out;
    }
};

std::string path_of(int n) { return "dir/m-0000" + std::to_string(n) + "-of-00003.gguf"; }

open_memory three(shard a, shard b, shard c) {
    return {{{path_of(1), a.bytes()}, {path_of(2), b.bytes()}, {path_of(3), c.bytes()}}};
}

open_memory good() { return three({0, 3, 4, {"a", "b"}, "llama"}, {1, 3, 4, {"output.weight"}}, {2, 3, 4, {"c"}}); }

std::string refusal(const open_memory& files, const std::string& path = path_of(1)) {
    return message_of<parse_error>([&] { read_gguf(path, {}, files); });
}

} // namespace

TEST_CASE("file/gguf: a split set is opened through any of its shards") {
    for (int through = 1; through <= 3; ++through) {
        const gguf_set set = read_gguf(path_of(through), {}, good());
        REQUIRE(set.shards.size() == 3);
        REQUIRE(set.tensors.size() == 4);
        CHECK(set.metadata.get<std::string>("general.architecture") == "llama");
        CHECK(set.tensors[0].shard == 0);
        CHECK(set.tensors[2].name == "output.weight");
        CHECK(set.tensors[2].shard == 1);
        CHECK(set.tensors[3].shard == 2);
        CHECK(set.shards[2]->path() == path_of(3));
    }
}

TEST_CASE("file/gguf: a missing shard is named") {
    open_memory files = good();
    files.files.pop_back();
    try {
        read_gguf(path_of(1), {}, files);
        FAIL("no error");
    } catch (const io_error& e) { CHECK(e.path() == path_of(3)); }
}

TEST_CASE("file/gguf: a renamed shard is refused") {
    const open_memory files{{{"m.gguf", shard{0, 3, 1, {"a"}}.bytes()},
                             {path_of(1), shard{0, 2, 1, {"a"}}.bytes()},
                             {"x-00004-of-00003.gguf", shard{0, 3, 1, {"a"}}.bytes()},
                             {"x-00000-of-00003.gguf", shard{0, 3, 1, {"a"}}.bytes()},
                             {"-0001x-of-00003.gguf", shard{0, 3, 1, {"a"}}.bytes()}}};
    for (const auto& [name, bytes] : files.files) CHECK(contains(refusal(files, name), "must keep the names"));
}

TEST_CASE("file/gguf: shards that contradict each other") {
    CHECK(contains(refusal(three({0, 3, 3, {"a"}}, {2, 3, 3, {"b"}}, {2, 3, 3, {"c"}})), "says it is shard 2 of 3"));
    CHECK(contains(refusal(three({0, 3, 3, {"a"}}, {1, 2, 3, {"b"}}, {2, 3, 3, {"c"}})), "says it is shard 1 of 2"));
    CHECK(contains(refusal(three({0, 3, 4, {"a"}}, {1, 3, 4, {"b"}}, {2, 3, 4, {"c"}})), "promises 4 tensors"));
    const open_memory lone{{{"m.gguf", shard{1, 1, 1, {"a"}}.bytes()}}};
    CHECK(contains(refusal(lone, "m.gguf"), "says it is shard 1 of 1"));
}

TEST_CASE("file/gguf: a name that is there twice, in a file or in two shards") {
    const open_memory one{
        {{"m.gguf", byte_builder{}.header(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).pad().zeros(64).out}}};
    CHECK(refusal(one, "m.gguf") == "m.gguf: tensor \"a\": is listed twice");
    CHECK(refusal(three({0, 3, 3, {"a"}}, {1, 3, 3, {"b"}}, {2, 3, 3, {"a"}})) ==
          path_of(3) + ": tensor \"a\": is listed twice, first in " + path_of(1));
}
