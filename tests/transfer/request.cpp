#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "support/transfers.hpp"
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/transfer/read.hpp>
#include <tern/transfer/request.hpp>

using namespace tern::literals;

namespace transfer_test {

/// A user's own way of moving bytes: to a device byte for byte through a small window, to the host directly.
struct through_window {
    static constexpr std::string_view name = "through_window";

    static tern::task<void> move(tern::transfer_request request) {
        if (request.to_host()) {
            co_await tern::read_backing(request, 0, request.to, request.size.count);
            co_return;
        }
        const tern::allocation window = request.staging->allocate({16}, request.what);
        for (std::uint64_t at = 0; at < request.size.count; at += 16) {
            const std::uint64_t n = std::min<std::uint64_t>(16, request.size.count - at);
            co_await tern::read_backing(request, at, window.data(), n);
            co_await tern::copy(*request.on, *request.home, tern::direction::to_device, request.to + at, window.data(),
                                {n});
        }
    }
};

struct nameless {
    static tern::task<void> move(tern::transfer_request);
};
struct motionless {
    static constexpr std::string_view name = "motionless";
};
struct blocking_call {
    static constexpr std::string_view name = "call";
    static void move(tern::transfer_request);
};
struct counting_result {
    static constexpr std::string_view name = "counts";
    static tern::task<int> move(tern::transfer_request);
};
struct by_reference {
    static constexpr std::string_view name = "reference";
    static tern::task<void> move(tern::transfer_request&);
};
struct by_const_reference {
    static constexpr std::string_view name = "const reference";
    static tern::task<void> move(const tern::transfer_request&);
};
struct not_static {
    static constexpr std::string_view name = "not static";
    tern::task<void> move(tern::transfer_request);
};
struct more_arguments {
    static constexpr std::string_view name = "more";
    static tern::task<void> move(tern::transfer_request, int);
};
struct overloaded {
    static constexpr std::string_view name = "overloaded";
    static tern::task<void> move(tern::transfer_request);
    static tern::task<void> move(int);
};

static_assert(tern::transfer_strategy<through_window>);
static_assert(tern::transfer_strategy<overloaded>);
static_assert(!tern::transfer_strategy<nameless>);
static_assert(!tern::transfer_strategy<motionless>);
static_assert(!tern::transfer_strategy<blocking_call>);
static_assert(!tern::transfer_strategy<counting_result>);
static_assert(!tern::transfer_strategy<by_reference>);
static_assert(!tern::transfer_strategy<by_const_reference>);
static_assert(!tern::transfer_strategy<not_static>);
static_assert(!tern::transfer_strategy<more_arguments>);
static_assert(!tern::transfer_strategy<int>);

} // namespace transfer_test

using transfer_test::through_window;

TEST_CASE("transfer/request: a user's own strategy moves to the host and to a device") {
    tern::run_loop home;
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 1_MiB}};
    const tern::move_function move = &through_window::move;
    for (const std::size_t n : {0u, 15u, 16u, 1000u}) {
        tern::test::counting_source source(n);
        CHECK(tern::test::moved(move, source, gpu, ram, home) == source.data);
        CHECK(tern::test::moved(move, source, cpu, ram, home) == source.data);
    }
    CHECK(ram.budget().used() == 0_B);
}

TEST_CASE("transfer/request: whether it goes to the host") {
    tern::heap_arena ram;
    tern::cpu_device cpu{ram, 1};
    tern::emulated_device gpu{{.capacity = 1_KiB}};
    CHECK(tern::transfer_request{.on = &cpu}.to_host());
    CHECK_FALSE(tern::transfer_request{.on = &gpu}.to_host());
}
