#include <doctest/doctest.h>

#include <string>

#include "support.hpp"
#include <tern/cpu.hpp>

using namespace tern;
using namespace tern::test;

namespace {

struct mine : halves {
    static constexpr std::string_view name = "mine";
};

std::string path_of_linear() { return kernel::slot<kernel::linear, q4_k>.get().path; }

} // namespace

TEST_CASE("kernel/cpu/fill: including cpu.hpp fills the table, and the paths are named") {
    const std::string best(kernel::cpu::name_of(kernel::cpu::chosen_instructions()));
    CHECK(cpu_kernels_filled);
    CHECK(path_of_linear() == best);
    CHECK(std::string(kernel::slot<kernel::attention>.get().path) == best);
    const auto paths = kernel::describe_paths();
    CHECK(paths.size() == 3 * all_formats::size + 12 + 12); // 12 formats have an integer form
    for (const auto& p : paths)
        if (p.op == "rope_angles" || p.op == "route" || p.op == "gather_rows" || p.op == "group_by_expert")
            CHECK(p.path == "reference");
        else
            CHECK(p.path == best);
    kernel::cpu::fill(kernel::cpu::instruction_set::reference);
    CHECK(path_of_linear() == "reference");
    kernel::cpu::fill();
    CHECK(path_of_linear() == best);
}

TEST_CASE("kernel/cpu/fill: a user's format goes on the fast path in one line") {
    auto& slot = kernel::slot<kernel::linear, mine>;
    CHECK(std::string(slot.get().path) == "reference");
    kernel::cpu::use<mine>();
    CHECK(std::string(slot.get().path) == kernel::cpu::name_of(kernel::cpu::chosen_instructions()));
    const signed char w[] = {2, 4, 6, 8};
    const float x[] = {1, 1, 1, 2};
    float y = 0;
    slot.get().run({bytes_of(w), 1, 4, x, 4, 1, &y, 1}, 0, 1);
    CHECK(y == 14);
}
