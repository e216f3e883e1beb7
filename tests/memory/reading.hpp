// What every reader of files must do, as functions that take one, and a system that misbehaves where a test asks for
// it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <doctest/doctest.h>

#include <tern/async/run_loop.hpp>
#include <tern/async/scope.hpp>
#include <tern/memory/disk_reader.hpp>
#include <tern/memory/disk_system.hpp>
#include <tern/memory/file_handle.hpp>

#include "file/bytes.hpp"
#include "memory/faulty_system.hpp"
#include "support/counting_source.hpp"

namespace tern::test {

inline task<void> read_one(disk_reader& reader, run_loop& loop, read_call call) {
    co_await tern::read(reader, loop, call);
}

inline void read_now(disk_reader& reader, byte_source& from, std::uint64_t offset, std::byte* into, std::size_t size,
                     bool slack = false) {
    run_loop loop;
    read_call call{.from = &from, .offset = offset, .into = into, .size = size, .slack = slack};
    loop.run(read_one(reader, loop, call));
}

inline bool is_pattern(const std::byte* data, std::uint64_t offset, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
        if (data[i] != pattern(offset + i)) return false;
    return true;
}

/// Reads into the middle of untouched memory: what is asked for arrives, and nothing around it changes that must not.
inline void check_read(disk_reader& reader, byte_source& from, std::uint64_t offset, std::size_t size,
                       std::size_t address, bool slack) {
    constexpr std::byte untouched{0x5A};
    constexpr std::size_t page = 4096;
    page_buffer memory(size + 4 * page);
    std::fill_n(memory.data(), memory.size(), untouched);
    const std::size_t begin = page + (slack ? static_cast<std::size_t>(offset % page) : address);
    read_now(reader, from, offset, memory.data() + begin, size, slack);
    CAPTURE(offset);
    CAPTURE(size);
    CAPTURE(address);
    CAPTURE(slack);
    CHECK(is_pattern(memory.data() + begin, offset, size));
    const std::size_t unit = slack ? reader.alignment() : 1;
    const std::size_t first = begin / unit * unit;
    const std::size_t last = (begin + size + unit - 1) / unit * unit;
    const auto is_untouched = [&](std::byte b) { return b == untouched; };
    CHECK(std::all_of(memory.data(), memory.data() + first, is_untouched));
    CHECK(std::all_of(memory.data() + last, memory.data() + memory.size(), is_untouched));
}

/// Offsets, sizes and addresses around the ends of sectors and pages.
inline void check_alignments(disk_reader& reader) {
    pattern_file file(3 * 4096 + 77);
    const std::uint64_t end = file.source.size();
    for (const std::uint64_t offset : {0, 1, 511, 512, 513, 4095, 4096, 4097, 8191, 8192, 12287, 12288, 12300, 12365})
        for (const std::size_t size : {0, 1, 2, 511, 512, 513, 4095, 4096, 4097, 8192, 8193, 12288, 12365}) {
            if (offset + size > end) continue;
            check_read(reader, file.source, offset, size, 0, true);
            for (const std::size_t address : {0, 1, 8, 512, 513, 4095})
                check_read(reader, file.source, offset, size, address, false);
            check_read(reader, file.source, offset, size, static_cast<std::size_t>(offset % 4096), false);
        }
}

/// Reads that are longer than any buffer of the reader's own.
inline void check_long_reads(disk_reader& reader) {
    constexpr std::size_t mib = 1 << 20;
    pattern_file file(3 * mib + 4096 + 77);
    for (const std::uint64_t offset : {0, 3, 4096, 5000}) {
        const auto rest = static_cast<std::size_t>(file.source.size() - offset);
        for (const std::size_t size : {2 * mib, 2 * mib + 1, rest}) {
            if (size > rest) continue;
            check_read(reader, file.source, offset, size, 0, true);
            check_read(reader, file.source, offset, size, 1, false);
            check_read(reader, file.source, offset, size, static_cast<std::size_t>(offset % 4096), false);
        }
    }
}

inline void check_ends(disk_reader& reader) {
    pattern_file file(5000);
    page_buffer memory(16384);
    const auto past = [&](std::uint64_t offset, std::size_t size) {
        try {
            read_now(reader, file.source, offset, memory.data(), size);
            FAIL("no error");
        } catch (const io_error& e) {
            CHECK(contains(e.what(), "past the end"));
            CHECK(e.path() == file.path);
            CHECK(e.needed() == size);
            CHECK(e.available() == (offset < 5000 ? 5000 - offset : 0));
        }
    };
    past(0, 5001);
    past(4999, 2);
    past(5000, 1);
    past(~std::uint64_t{0}, 4096);
    read_now(reader, file.source, 5000, nullptr, 0);
    read_now(reader, file.source, 9999, nullptr, 0); // nothing is always there
    pattern_file empty(0);
    read_now(reader, empty.source, 0, nullptr, 0);
    CHECK_THROWS_AS(read_now(reader, empty.source, 0, memory.data(), 1), io_error);
    // What is open is read, whatever its name is by now.
    CHECK(std::remove(file.path.c_str()) == 0);
    read_now(reader, file.source, 1, memory.data(), 4999);
    CHECK(is_pattern(memory.data(), 1, 4999));
}

/// A source without a descriptor, which gives few bytes at a time, and one that fails.
inline void check_sources_without_descriptor(disk_reader& reader) {
    counting_source source(10'000, 999);
    check_read(reader, source, 123, 9000, 5, false);
    CHECK(source.reads >= 9);
    source.fails_from = 5000;
    page_buffer memory(8192);
    CHECK(contains(message_of<io_error>([&] { read_now(reader, source, 0, memory.data(), 6000); }), "broken"));
}

/// A reader on a system with faults: short reads, interruptions, and then direct reads that are refused.
template <class Make> void check_fallback(Make make) {
    faulty_system system;
    system.most = 4097;
    system.interrupts = true;
    const auto reader = make(system, false);
    pattern_file file(300'000);
    check_read(*reader, file.source, 5, 200'000, 5, true);
    check_read(*reader, file.source, 5, 200'000, 6, false);
    CHECK(system.requests >= 2 * 2 * (200'000 / 4097));
    CHECK(reader->counters().fallbacks == (is_direct(file.source) ? 0u : 1u));
    system.direct_error = EINVAL;
    check_read(*reader, file.source, 7, 200'000, 7, true);
    check_read(*reader, file.source, 7, 200'000, 8, false);
    CHECK(reader->counters().fallbacks == 1);
    CHECK(contains(reader->status(), file.path));
    CHECK(contains(reader->status(), "Invalid argument"));
    CHECK(reader->counters().asked.count == 800'000);

    const auto strict = make(system, true);
    page_buffer memory(4096);
    try {
        read_now(*strict, file.source, 0, memory.data(), 4096);
        FAIL("no error");
    } catch (const io_error& e) {
        CHECK(e.path() == file.path);
        CHECK(contains(e.what(), "direct I/O, which is required"));
    }
}

/// Files that cannot be opened for direct reads, need too large an alignment, or give nothing.
template <class Make> void check_refused_files(Make make) {
    for (int way = 0; way < 4; ++way) {
        CAPTURE(way);
        faulty_system system;
        if (way == 0) system.direct_open_error = EINVAL;
        if (way == 1) system.claims_alignment = 0;
        if (way == 2) system.claims_alignment = 8192;
        if (way == 3) system.most = 3; // past one byte, no request reaches beyond what is there
        {
            const auto reader = make(system, false);
            pattern_file file(9000);
            check_read(*reader, file.source, 1, 8000, 9, false);
            CHECK(reader->counters().fallbacks == 1);
            CHECK(contains(reader->status(), file.path));
            CHECK(system.open_now >= 1);
            reader->forget(file.source);
            CHECK(system.open_now == 0);
            check_read(*reader, file.source, 1, 8000, 9, false); // opened again
            const auto strict = make(system, true);
            page_buffer memory(4096);
            CHECK(contains(message_of<io_error>([&] { read_now(*strict, file.source, 0, memory.data(), 4000); }),
                           file.path));
        }
        CHECK(system.open_now == 0);
    }
}

template <class Make> void check_errors(Make make) {
    faulty_system system;
    system.fails_at = 2;
    system.most = 8192;
    const auto reader = make(system, false);
    pattern_file file(100'000);
    page_buffer memory(100'352);
    try {
        read_now(*reader, file.source, 0, memory.data(), 90'000, true);
        FAIL("no error");
    } catch (const io_error& e) {
        CHECK(e.path() == file.path);
        CHECK(e.needed() == 90'000u);
        CHECK(contains(e.what(), "at byte 16384: Input/output error"));
    }
    check_read(*reader, file.source, 0, 90'000, 0, true); // the reader goes on
}

/// A file that is shortened while it is read: an error, whether the end falls on a page or not.
template <class Make> void check_truncation(Make make) {
    for (const std::size_t left : {std::size_t{0}, std::size_t{12'288}, std::size_t{30'001}})
        for (const bool slack : {false, true})
            for (const bool direct : {false, true}) {
                CAPTURE(left);
                faulty_system system;
                if (!direct) system.direct_open_error = EINVAL;
                system.most = 8192;
                pattern_file file(100'000);
                system.before = [&](std::size_t n) {
                    if (n == 1) CHECK(::truncate(file.path.c_str(), static_cast<off_t>(left)) == 0);
                };
                const auto reader = make(system, false);
                page_buffer memory(100'352);
                try {
                    read_now(*reader, file.source, 0, memory.data(), 90'000, slack);
                    FAIL("no error");
                } catch (const io_error& e) {
                    CHECK(contains(e.what(), "the file ended while it was read"));
                    CHECK(e.path() == file.path);
                    CHECK(e.needed() == 90'000u);
                    REQUIRE(e.available());
                    CHECK(*e.available() == std::max<std::size_t>(left, 16'384));
                    CHECK(is_pattern(memory.data(), 0, static_cast<std::size_t>(*e.available())));
                }
                CHECK(reader->counters().fallbacks == (direct && is_direct(file.source) ? 0u : 1u));
            }
}

/// Reading in order by 1 MiB asks the system for no less at once.
template <class Make> void check_request_sizes(Make make) {
    constexpr std::size_t mib = 1 << 20;
    faulty_system system;
    const auto reader = make(system, false);
    pattern_file file(64 * mib);
    page_buffer memory(mib);
    bool right = true;
    for (std::uint64_t at = 0; at < 64 * mib; at += mib) {
        read_now(*reader, file.source, at, memory.data(), mib);
        right = right && is_pattern(memory.data(), at, mib);
    }
    CHECK(right);
    CHECK(system.shortest >= mib);
    const read_counters seen = reader->counters();
    CHECK(seen.requests == system.requests);
    CHECK(seen.asked.count == 64 * mib);
    CHECK(seen.read.count == 64 * mib);
}

inline task<void> many_reads(disk_reader& reader, run_loop& loop, byte_source& from, std::size_t count,
                             std::uint64_t seed, std::atomic<std::size_t>& right) {
    alignas(16) std::byte memory[700];
    for (std::size_t i = 0; i < count; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const auto size = static_cast<std::size_t>(seed >> 33) % sizeof memory;
        const std::uint64_t offset = (seed >> 17) % (from.size() - size);
        read_call call{.from = &from, .offset = offset, .into = memory, .size = size};
        co_await tern::read(reader, loop, call);
        if (is_pattern(memory, offset, size)) right.fetch_add(1, std::memory_order_relaxed);
    }
}

inline task<void> many_readers(disk_reader& reader, run_loop& loop, byte_source& from, std::size_t readers,
                               std::size_t count, std::atomic<std::size_t>& right) {
    scope s;
    for (std::size_t i = 0; i < readers; ++i) s.spawn(many_reads(reader, loop, from, count, i + 1, right));
    co_await s.join();
}

/// 10,000 small reads from two loops at once.
inline void check_two_loops(disk_reader& reader) {
    pattern_file file(200'000);
    std::atomic<std::size_t> right{0};
    const auto run = [&] {
        run_loop loop;
        loop.run(many_readers(reader, loop, file.source, 50, 100, right));
    };
    std::thread other(run);
    run();
    other.join();
    CHECK(right == 10'000);
}

inline task<void> read_then_end(std::unique_ptr<disk_reader> reader, run_loop& loop, byte_source& from,
                                std::atomic<bool>& open, std::atomic<std::size_t>& right) {
    scope s;
    for (std::size_t i = 0; i < 100; ++i) s.spawn(many_reads(*reader, loop, from, 1, i + 1, right));
    co_await loop.schedule(); // all have asked by now
    CHECK(right == 0);
    open = true;
    open.notify_all();
    reader.reset();
    co_await s.join();
}

/// The reader ends while reads are queued: they are finished. No result comes before that.
template <class Make> void check_end(Make make) {
    std::atomic<bool> open{false};
    faulty_system system;
    system.before = [&](std::size_t) { open.wait(false); };
    pattern_file file(50'000);
    std::atomic<std::size_t> right{0};
    run_loop loop;
    loop.run(read_then_end(make(system, false), loop, file.source, open, right));
    CHECK(right == 100);
    CHECK(system.open_now == 0);
}

/// Another source at the address of one that went away is another file.
inline void check_reused_address(disk_reader& reader) {
    temporary_folder folder;
    const std::string a = folder.write("a", "aaaa");
    const std::string b = folder.write("b", "bbbb");
    char got[5] = {};
    file_source source(a);
    read_now(reader, source, 0, reinterpret_cast<std::byte*>(got), 4);
    CHECK(std::string(got) == "aaaa");
    source = file_source(b);
    read_now(reader, source, 0, reinterpret_cast<std::byte*>(got), 4);
    CHECK(std::string(got) == "bbbb");
}

} // namespace tern::test
