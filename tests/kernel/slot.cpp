#include <doctest/doctest.h>

#include <string>

#include "support.hpp"
#include <tern/kernel/linear.hpp>
#include <tern/kernel/slot.hpp>

using namespace tern;
using namespace tern::test;

namespace {

struct counted : halves {}; // a format that no other test puts kernels in for

void constant(const kernel::linear::args& a, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) a.y[r] = 42;
}

static_assert(kernel::kernel_operator<kernel::linear>);
struct nameless {
    struct args {};
    static std::size_t items(const args&) { return 0; }
};
static_assert(!kernel::kernel_operator<nameless>);
struct uncounted {
    struct args {};
    static constexpr std::string_view name = "uncounted";
};
static_assert(!kernel::kernel_operator<uncounted>);

} // namespace

TEST_CASE("kernel/slot: a slot starts with the reference and takes a function of the user's own") {
    auto& slot = kernel::slot<kernel::linear, counted>;
    CHECK(std::string(slot.get().path) == "reference");
    const signed char w[] = {2, 2, 2, 2};
    const float x[] = {1, 1, 1, 1};
    float y = 0;
    const kernel::linear::args args{bytes_of(w), 1, 4, x, 4, 1, &y, 1};
    slot.get().run(args, 0, 1);
    CHECK(y == 4);
    static constexpr kernel::kernel_entry<kernel::linear> mine{&constant, "mine"};
    slot.set(mine);
    CHECK(std::string(slot.get().path) == "mine");
    slot.get().run(args, 0, 1);
    CHECK(y == 42);
    // The slot of another device is another one.
    CHECK(std::string(kernel::slot<kernel::linear, counted, kernel::on_cuda>.get().path) == "reference");
}
