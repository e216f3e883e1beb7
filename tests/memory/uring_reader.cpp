#include <doctest/doctest.h>

#if defined(TERN_LIBURING) && TERN_LIBURING

#include <memory>
#include <optional>

#include <tern/memory/uring_reader.hpp>

#include "memory/reading.hpp"

using namespace tern;
using namespace tern::test;

namespace {

std::unique_ptr<disk_reader> make(faulty_system& system, bool strict) {
    return std::make_unique<uring_reader>(uring_options{.depth = 3, .strict = strict, .system = &system});
}

// Whether this kernel gives a ring: containers often forbid it.
bool has_ring() {
    try {
        uring_reader probe({.depth = 1});
        return true;
    } catch (const unsupported_error& e) {
        MESSAGE("skipped: " << e.what());
        return false;
    }
}

} // namespace

TEST_CASE("memory/uring_reader: every alignment of offset, size and address gives the file's bytes") {
    if (!has_ring()) return;
    uring_reader direct;
    uring_reader small({.depth = 1, .bounce = 8192});
    uring_reader buffered({.direct = false});
    CHECK(direct.alignment() == 4096);
    CHECK(buffered.alignment() == 1);
    for (disk_reader* reader : {static_cast<disk_reader*>(&direct), static_cast<disk_reader*>(&small),
                                static_cast<disk_reader*>(&buffered)}) {
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

TEST_CASE("memory/uring_reader: short reads and interruptions go on, refused direct reads fall back or are errors") {
    if (!has_ring()) return;
    check_fallback(make);
    check_refused_files(make);
}

TEST_CASE("memory/uring_reader: errors name path, place and bytes") {
    if (!has_ring()) return;
    check_errors(make);
    check_truncation(make);
}

TEST_CASE("memory/uring_reader: 64 MiB in order by 1 MiB are requests of 1 MiB") {
    if (!has_ring()) return;
    check_request_sizes(make);
}

TEST_CASE("memory/uring_reader: two loops read at once") {
    if (!has_ring()) return;
    uring_reader deep;
    check_two_loops(deep);
    uring_reader shallow({.depth = 2, .bounce = 8192});
    check_two_loops(shallow);
}

TEST_CASE("memory/uring_reader: what is queued when the reader ends is read") {
    if (!has_ring()) return;
    check_end(make);
    check_end([](faulty_system& system, bool) {
        return std::make_unique<uring_reader>(uring_options{.depth = 200, .system = &system});
    });
}

TEST_CASE("memory/uring_reader: senseless options and a kernel that forbids rings are errors") {
    CHECK_THROWS_AS(uring_reader({.depth = 0}), config_error);
    CHECK_THROWS_AS(uring_reader({.depth = 5000}), config_error);
    CHECK_THROWS_AS(uring_reader({.bounce = 4096}), config_error);
    CHECK_THROWS_AS(uring_reader({.bounce = 10'000}), config_error);
    faulty_system system;
    system.ring_error = EPERM;
    CHECK(contains(message_of<unsupported_error>([&] { make(system, false); }), "Operation not permitted"));
}

#else

TEST_CASE("memory/uring_reader: skipped: no liburing") { MESSAGE("skipped: built without liburing"); }

#endif
