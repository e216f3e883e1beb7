#include <tern/memory/mapped_file.hpp>

#include <string>
#include <utility>

#include <unistd.h>

#include <doctest/doctest.h>

#include "file/bytes.hpp"

using namespace tern;
using namespace tern::test;

TEST_CASE("memory/mapped_file: maps a whole file, outlives its handle, moves") {
    temporary_folder folder;
    std::string text(10000, 'a');
    text[9999] = 'z';
    mapped_file map(file_source(folder.write("a", text)));
    REQUIRE(map.bytes().size() == 10000);
    CHECK(map.bytes()[9999] == std::byte{'z'});
    const auto* at = map.bytes().data();
    for (const access_pattern pattern :
         {access_pattern::normal, access_pattern::random, access_pattern::sequential, access_pattern::will_need}) {
        map.advise(pattern);
        map.advise(pattern, 5000, ~std::size_t{0});
        map.advise(pattern, 10000, 1);
    }
    mapped_file moved = std::move(map);
    CHECK(moved.bytes().data() == at);
    CHECK(map.bytes().empty());
    map = std::move(moved);
    CHECK(map.bytes()[0] == std::byte{'a'});
}

TEST_CASE("memory/mapped_file: an empty file, no file, and a file that shrank") {
    temporary_folder folder;
    mapped_file empty(file_source(folder.write("empty", "")));
    CHECK(empty.bytes().empty());
    empty.advise(access_pattern::will_need);
    CHECK_THROWS_AS(mapped_file(memory_source(as_bytes_of("abc"))), unsupported_error);
    const std::string path = folder.write("shrinks", std::string(100, 'x'));
    file_source file(path);
    REQUIRE(::truncate(path.c_str(), 10) == 0);
    CHECK(contains(message_of<io_error>([&] { mapped_file map(file); }), "shortened"));
}
