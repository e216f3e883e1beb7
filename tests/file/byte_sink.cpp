#include <tern/file/byte_sink.hpp>

#include <string>

#include <doctest/doctest.h>

#include "file/bytes.hpp"
#include "support/data.hpp"

using namespace tern;
using namespace tern::test;

TEST_CASE("file/byte_sink: a file appears when it is whole") {
    temporary_folder folder;
    const std::string path = folder / "out";
    {
        file_sink sink(path);
        sink.write(as_bytes_of("abc"));
        CHECK_FALSE(exists(path));
        sink.write(as_bytes_of("def"));
        sink.commit();
        CHECK_THROWS_AS(sink.commit(), io_error);
        CHECK_THROWS_AS(sink.write(as_bytes_of("g")), io_error);
    }
    const auto bytes = read_all(path);
    CHECK(std::string(bytes.begin(), bytes.end()) == "abcdef");
    {
        file_sink sink(path);
        sink.write(as_bytes_of("other"));
    }
    CHECK(read_all(path).size() == 6); // not committed: the old file stays, nothing is left behind
    CHECK_FALSE(exists(path + ".part"));
}

TEST_CASE("file/byte_sink: errors name the path") {
    temporary_folder folder;
    const std::string path = folder.path() + "/missing/out";
    CHECK(contains(message_of<io_error>([&] { file_sink sink(path); }), path));
    const std::string taken = folder.path();
    CHECK_THROWS_AS(file_sink(taken).commit(), io_error); // a folder is there
    CHECK_FALSE(exists(taken + ".part"));
}

TEST_CASE("file/byte_sink: memory collects") {
    memory_sink sink;
    sink.write(as_bytes_of("ab"));
    sink.write(as_bytes_of("c"));
    CHECK(sink.bytes().size() == 3);
    CHECK(sink.bytes()[2] == std::byte{'c'});
}
