#include <doctest/doctest.h>

#include <stop_token>
#include <string>
#include <vector>

#include "support/transfers.hpp"
#include <tern/transfer/read.hpp>

using namespace tern::literals;
using tern::test::counting_source;

TEST_CASE("transfer/read: bytes come from the file over short reads, or from memory") {
    counting_source source(20'000, 4097);
    std::vector<std::byte> into(10'000);
    tern::transfer_request request{.from = {.file = &source, .offset = 100}, .size = 15'000_B};
    tern::detail::read_backing(request, 50, into.data(), into.size());
    CHECK(into == std::vector<std::byte>(source.data.begin() + 150, source.data.begin() + 10'150));
    CHECK(source.reads == 3);

    request.from = {.memory = source.data.data() + 7};
    tern::detail::read_backing(request, 50, into.data(), into.size());
    CHECK(into == std::vector<std::byte>(source.data.begin() + 57, source.data.begin() + 10'057));
    CHECK(source.reads == 3);
}

TEST_CASE("transfer/read: a stop, a missing backing and a broken file are errors") {
    counting_source source(1000);
    std::vector<std::byte> into(100);
    tern::transfer_request nothing{.what = "w"};
    tern::detail::read_backing(nothing, 0, nullptr, 0); // no bytes need no backing
    try {
        tern::detail::read_backing(nothing, 0, into.data(), 100);
        FAIL("there is nothing to read");
    } catch (const tern::config_error& e) { CHECK(e.tensor() == "w"); }

    std::stop_source stop;
    stop.request_stop();
    const tern::transfer_request stopped{.from = {.file = &source}, .stop = stop.get_token(), .what = "blk.1"};
    try {
        tern::detail::read_backing(stopped, 0, into.data(), 100);
        FAIL("it was stopped");
    } catch (const tern::stopped_error& e) { CHECK(std::string(e.what()).find("blk.1") != std::string::npos); }
    CHECK(source.reads == 0);

    const tern::transfer_request past{.from = {.file = &source, .offset = 950}};
    CHECK_THROWS_AS(tern::detail::read_backing(past, 0, into.data(), 100), tern::io_error);
}

TEST_CASE("transfer/read: a listener is told, where there is one") {
    tern::test::progress seen;
    tern::detail::arrived({.listener = &seen}, 10);
    tern::detail::arrived({}, 10);
    CHECK(seen.total == 10);
    CHECK(seen.calls == 1);
}
