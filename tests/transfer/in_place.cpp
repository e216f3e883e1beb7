#include <doctest/doctest.h>

#include <string>

#include <tern/device/emulated.hpp>
#include <tern/transfer/in_place.hpp>

using namespace tern::literals;

static_assert(tern::transfer_strategy<tern::in_place>);

namespace {

tern::task<> ask(tern::device& on) { co_await tern::in_place::move({.on = &on, .what = "output.weight"}); }

} // namespace

TEST_CASE("transfer/in_place: a move is refused, with the tensor and where it should go") {
    tern::run_loop home;
    tern::emulated_device gpu{{.capacity = 1_KiB, .index = 1}};
    try {
        home.run(ask(gpu));
        FAIL("nothing moves in place");
    } catch (const tern::config_error& e) {
        CHECK(e.tensor() == "output.weight");
        CHECK(std::string(e.what()).find("vram:1") != std::string::npos);
    }
    CHECK(gpu.traffic().to_device == 0_B);
}
