#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <tern/memory/direct_file.hpp>

using namespace tern;
using namespace tern::detail;

namespace {

// Follows a call's requests to its end, as if each gave all that it asks for; false where one would be refused.
bool follow(read_call call, std::size_t unit, std::span<std::byte> bounce, std::size_t& requests) {
    for (requests = 0; call.moved < call.size; ++requests) {
        const read_request r = next_request(call, bounce);
        const auto address = reinterpret_cast<std::uintptr_t>(r.into);
        if (address % unit != 0 || r.offset % unit != 0 || r.size % unit != 0) return false;
        if (r.offset + r.skip != call.offset + call.moved || r.skip >= r.size) return false;
        const std::size_t useful = std::min(r.size - r.skip, call.size - call.moved);
        if (r.bounced) {
            if (r.into != bounce.data() || r.size > bounce.size()) return false;
        } else if (r.into + r.skip != call.into + call.moved) {
            return false;
        } else if (!call.slack && (r.skip != 0 || r.size > call.size - call.moved)) {
            return false;
        }
        call.moved += useful;
    }
    return true;
}

} // namespace

TEST_CASE("memory/direct_file: every request is aligned, stays in its memory and makes progress") {
    const bounce_memory bounce(16384);
    auto* const memory = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40); // never touched
    byte_source* const source = nullptr;
    int bad = 0;
    for (const std::size_t unit : {512, 4096}) {
        direct_file file;
        file.alignment = unit;
        file.direct = true;
        for (const std::uint64_t offset : {0, 1, 511, 512, 4095, 4096, 4097, 100'000})
            for (const std::size_t size : {1, 511, 512, 4096, 4097, 16'384, 16'385, 20'000, 50'000})
                for (const std::size_t address : {0, 1, 511, 512, 4095, 1696}) // 100'000 is 1696 modulo 4096
                    for (const bool slack : {false, true}) {
                        read_call call{
                            .from = source, .offset = offset, .into = memory + address, .size = size, .slack = slack};
                        call.file = &file;
                        std::size_t requests = 0;
                        bad += !follow(call, unit, bounce.span(), requests);
                        const bool matches = (address - offset) % unit == 0;
                        if (slack && matches) bad += requests != 1;
                        if (matches) bad += requests > 3; // the ends, and what is between
                    }
    }
    CHECK(bad == 0);
}

TEST_CASE("memory/direct_file: what the system cannot read at once is cut") {
    const bounce_memory bounce(16384);
    auto* const memory = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    direct_file file;
    file.alignment = 4096;
    for (const bool direct : {false, true})
        for (const bool slack : {false, true}) {
            file.direct = direct;
            read_call call{.offset = 8192, .into = memory, .size = (std::size_t{5} << 29) + 1, .slack = slack};
            call.file = &file;
            std::size_t longest = 0;
            std::size_t requests = 0;
            for (; call.moved < call.size; ++requests) {
                const read_request r = next_request(call, bounce.span());
                longest = std::max(longest, r.size);
                call.moved += std::min(r.size - r.skip, call.size - call.moved);
            }
            CHECK(longest == std::size_t{1} << 30);
            CHECK(requests <= 4);
        }
}

TEST_CASE("memory/direct_file: a descriptor that is none is an errno") {
    CHECK(disk_system::real().open(-1, false) == -EBADF);
    CHECK(disk_system::real().open(-1, true) < 0);
    CHECK(disk_system::real().state(-1).size == 0);
}
