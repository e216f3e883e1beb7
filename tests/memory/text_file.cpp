#include <tern/memory/text_file.hpp>

#include <cstdio>
#include <filesystem>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <doctest/doctest.h>

namespace {

struct folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("tern_text_file_" + std::to_string(::getpid()));
    folder() { std::filesystem::create_directory(path); }
    ~folder() { std::filesystem::remove_all(path); }
};

} // namespace

TEST_CASE("memory/text_file: what is written is read, and replaces what was there") {
    const folder f;
    const std::string path = f.path / "a.json";
    const std::string text("x\0\n\xc3\xa9", 5);
    tern::write_text_file(path, text);
    CHECK(tern::read_text_file(path) == text);
    tern::write_text_file(path, "");
    CHECK(tern::read_text_file(path).empty());
    CHECK(std::distance(std::filesystem::directory_iterator(f.path), {}) == 1); // nothing is left beside it
}

TEST_CASE("memory/text_file: a file that is too large, absent or in no folder is an error that names it") {
    const folder f;
    const std::string path = f.path / "a";
    tern::write_text_file(path, "12345");
    CHECK(tern::read_text_file(path, 5) == "12345");
    try {
        tern::read_text_file(path, 4);
        FAIL("it has 5 bytes");
    } catch (const tern::io_error& e) {
        CHECK(e.path() == path);
        CHECK(e.needed() == 5);
        CHECK(e.available() == 4);
    }
    CHECK_THROWS_AS(tern::read_text_file(path + "b"), tern::io_error);
    CHECK_THROWS_AS(tern::write_text_file(f.path / "no" / "a", "x"), tern::io_error);
    CHECK_THROWS_AS(tern::write_text_file(f.path, "x"), tern::io_error); // a folder
    CHECK(!std::filesystem::exists(f.path.string() + ".new"));
}

TEST_CASE("memory/text_file: a link leads to the file that is replaced, and what is no file stays") {
    const folder f;
    const std::string path = f.path / "a";
    const std::string link = f.path / "link";
    tern::write_text_file(path, "old");
    std::filesystem::create_symlink(path, link);
    tern::write_text_file(link, "new");
    CHECK(std::filesystem::is_symlink(link));
    CHECK(tern::read_text_file(path) == "new");
    const std::string pipe = f.path / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_THROWS_AS(tern::write_text_file(pipe, "x"), tern::io_error);
    CHECK(std::filesystem::is_fifo(pipe));
    std::filesystem::create_symlink(pipe, f.path / "to_pipe");
    CHECK_THROWS_AS(tern::write_text_file(f.path / "to_pipe", "x"), tern::io_error);
    CHECK(std::filesystem::is_fifo(pipe));
}
