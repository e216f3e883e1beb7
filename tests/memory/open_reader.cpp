#include <doctest/doctest.h>

#include <string>

#include <tern/memory/open_reader.hpp>

#include "memory/reading.hpp"

using namespace tern;
using namespace tern::test;

TEST_CASE("memory/open_reader: the best there is, and why it is no better") {
    pattern_file file(10'000);
    const auto best = open_reader();
    check_read(*best, file.source, 1, 9000, 3, false);
    const bool ring = best->name() == "io_uring";
    CHECK((ring || best->name() == "pread"));
    CHECK(contains(best->status(), ring ? "by io_uring" : "no io_uring here"));

    // Built without liburing.
    const auto plain = open_reader<false>();
    CHECK(plain->name() == "pread");
    CHECK(contains(plain->status(), "without liburing"));
    check_read(*plain, file.source, 1, 9000, 3, false);
    CHECK(contains(message_of<unsupported_error>([] { open_reader<false>({.strict = true}); }), "without liburing"));

    // Forbidden by the kernel.
    faulty_system system;
    system.ring_error = EPERM;
    const auto lesser = open_reader({.system = &system});
    CHECK(lesser->name() == "pread");
    CHECK(contains(lesser->status(), "no io_uring here: "));
    CHECK_THROWS_AS(open_reader({.strict = true, .system = &system}), unsupported_error);
    CHECK_THROWS_AS(open_reader({.kind = "io_uring", .system = &system}), unsupported_error);
}

TEST_CASE("memory/open_reader: a kind by its name") {
    CHECK(open_reader({.kind = "blocking"})->name() == "blocking");
    const auto threads = open_reader({.threads = 2, .direct = false, .kind = "pread"});
    CHECK(threads->name() == "pread");
    CHECK(threads->alignment() == 1);
    CHECK(contains(threads->status(), "2 threads"));
    CHECK(contains(message_of<config_error>([] { open_reader({.kind = "fast"}); }), "\"fast\""));
    CHECK_THROWS_AS(open_reader({.threads = 0, .kind = "pread"}), config_error);
}
