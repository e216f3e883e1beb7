#include <doctest/doctest.h>

#include <memory>

#include <tern/memory/pread_reader.hpp>

#include "memory/reading.hpp"

using namespace tern;
using namespace tern::test;

namespace {

std::unique_ptr<disk_reader> make(faulty_system& system, bool strict) {
    return std::make_unique<pread_reader>(pread_options{.threads = 2, .strict = strict, .system = &system});
}

} // namespace

TEST_CASE("memory/pread_reader: every alignment of offset, size and address gives the file's bytes") {
    pread_reader direct;
    pread_reader buffered({.direct = false});
    CHECK(direct.alignment() == 4096);
    CHECK(buffered.alignment() == 1);
    for (disk_reader* reader : {static_cast<disk_reader*>(&direct), static_cast<disk_reader*>(&buffered)}) {
        check_alignments(*reader);
        check_long_reads(*reader);
        check_ends(*reader);
        check_sources_without_descriptor(*reader);
        check_reused_address(*reader);
    }
    CHECK(contains(direct.status(), "with direct I/O"));
    CHECK(contains(buffered.status(), "page cache"));
    CHECK(buffered.counters().fallbacks == 0);
}

TEST_CASE("memory/pread_reader: short reads and interruptions go on, refused direct reads fall back or are errors") {
    check_fallback(make);
    check_refused_files(make);
}

TEST_CASE("memory/pread_reader: errors name path, place and bytes") {
    check_errors(make);
    check_truncation(make);
}

TEST_CASE("memory/pread_reader: 64 MiB in order by 1 MiB are requests of 1 MiB") { check_request_sizes(make); }

TEST_CASE("memory/pread_reader: two loops read at once") {
    pread_reader reader({.threads = 3});
    check_two_loops(reader);
}

TEST_CASE("memory/pread_reader: what is queued when the reader ends is read") { check_end(make); }

TEST_CASE("memory/pread_reader: senseless options are refused") {
    CHECK_THROWS_AS(pread_reader({.threads = 0}), config_error);
    CHECK_THROWS_AS(pread_reader({.threads = 257}), config_error);
}
