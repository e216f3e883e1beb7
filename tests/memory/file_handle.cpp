#include <tern/memory/file_handle.hpp>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "file/bytes.hpp"

using namespace tern;
using namespace tern::test;

TEST_CASE("memory/file_handle: reads a file at offsets, and moves") {
    temporary_folder folder;
    const std::string path = folder.write("a", "0123456789");
    file_source file(path);
    CHECK(file.size() == 10);
    CHECK(file.path() == path);
    CHECK((::fcntl(file.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
    char text[4] = {};
    read_exact(file, 3, std::as_writable_bytes(std::span(text, 3)));
    CHECK(std::string(text) == "345");
    CHECK(file.read_some(10, std::as_writable_bytes(std::span(text))) == 0);
    CHECK(file.read_some(8, std::as_writable_bytes(std::span(text))) == 2);
    CHECK(file.read_some(~std::uint64_t{0}, std::as_writable_bytes(std::span(text))) == 0);

    file_source moved = std::move(file);
    read_exact(moved, 0, std::as_writable_bytes(std::span(text, 3)));
    CHECK(std::string(text) == "012");
    CHECK_THROWS_AS(file.read_some(0, std::as_writable_bytes(std::span(text))), io_error);
}

TEST_CASE("memory/file_handle: a closed descriptor is not leaked or closed twice") {
    temporary_folder folder;
    const std::string path = folder.write("a", "x");
    int fd = -1;
    {
        file_source file(path);
        fd = file.descriptor();
        file_source other(path);
        other = std::move(file);
        CHECK(other.descriptor() == fd);
    }
    CHECK(::fcntl(fd, F_GETFD) == -1);
}

TEST_CASE("memory/file_handle: what is no regular file is refused at once") {
    temporary_folder folder;
    const std::string fifo = folder / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(contains(message_of<io_error>([&] { file_source file(fifo); }), "is a FIFO"));
    CHECK(contains(message_of<io_error>([&] { file_source file(folder.path()); }), "is a directory"));
    CHECK(contains(message_of<io_error>([&] { file_source file("/dev/null"); }), "is a device"));
    const std::string missing = folder.path() + "/missing";
    CHECK(contains(message_of<io_error>([&] { file_source file(missing); }), missing));
    CHECK(contains(message_of<io_error>([&] { file_source file(std::string("a\0b", 3)); }), "zero byte"));
}

TEST_CASE("memory/file_handle: read_exact loops over short reads and says what is missing") {
    std::string text(10000, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
    short_source source(text, 4097);
    std::string got(9000, '\0');
    read_exact(source, 1000, std::as_writable_bytes(std::span(got)));
    CHECK(got == text.substr(1000));
    CHECK(source.reads == 3);
    try {
        read_exact(source, 1001, std::as_writable_bytes(std::span(got)));
        FAIL("no error");
    } catch (const io_error& e) {
        CHECK(e.path() == "short");
        CHECK(e.needed() == 9000u);
        CHECK(e.available() == 8999u);
    }
    read_exact(source, 20000, {}); // nothing is always there
    source.claimed = 20000;        // shortened after its size was taken
    CHECK(contains(message_of<io_error>([&] { read_exact(source, 5000, std::as_writable_bytes(std::span(got))); }),
                   "shortened"));
    CHECK_THROWS_AS(read_exact(source, ~std::uint64_t{0}, std::as_writable_bytes(std::span(got))), io_error);
}

TEST_CASE("memory/file_handle: memory is a source") {
    const std::string text = "abcdef";
    memory_source source(as_bytes_of(text), "name");
    char got[4] = {};
    CHECK(source.read_some(4, std::as_writable_bytes(std::span(got))) == 2);
    CHECK(std::string(got) == "ef");
    CHECK(source.read_some(6, std::as_writable_bytes(std::span(got))) == 0);
    CHECK(source.resident().data() == as_bytes_of(text).data());
    CHECK(source.descriptor() == -1);
    CHECK(source.path() == "name");
}
