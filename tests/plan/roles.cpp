#include <tern/plan/roles.hpp>

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/run_loop.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/pread_reader.hpp>
#include <tern/transfer/prefetched.hpp>

#include <support/counting_source.hpp>

#include "support.hpp"

namespace test = tern::test;
using namespace tern::literals;
using tern::tensor_role;

TEST_CASE("plan/roles: a table is looked up until it is the output too, experts are those of nodes with a choice") {
    tern::graph g = test::layers();
    for (const tensor_role r : tern::roles_of(g)) CHECK(r == tensor_role::used);
    g.nodes.pop_back();
    const std::vector<tensor_role> untied = tern::roles_of(g);
    CHECK(untied[0] == tensor_role::looked_up);
    for (std::size_t i = 1; i < untied.size(); ++i) CHECK(untied[i] == tensor_role::used);

    const tern::graph m = test::mixture();
    const std::vector<tensor_role> roles = tern::roles_of(m);
    REQUIRE(roles.size() == m.tensors.size());
    for (std::size_t i = 0; i < roles.size(); ++i) {
        CAPTURE(m.tensors[i].name);
        CHECK(roles[i] == (m.tensors[i].name == "table"     ? tensor_role::looked_up
                           : m.tensors[i].shape.experts > 1 ? tensor_role::expert
                                                            : tensor_role::used));
    }
    CHECK(tern::roles_of({}).empty());
}

TEST_CASE("plan/roles: the room for weights is the budget less what is reserved and what activations need") {
    tern::graph g;
    g.activation_peak = {400};
    CHECK(tern::weight_room(g, test::with({1000}), test::vram0) == 500_B);
    CHECK(tern::weight_room(g, test::with({500}), test::vram0) == 0_B);
    CHECK(tern::weight_room(g, test::with({1}), test::vram0) == 0_B);
    CHECK(tern::weight_room(g, test::with({}), test::vram0) == 0_B);
    CHECK(tern::weight_room(g, test::with({1000}).with_reserved(test::vram0, {300}), test::vram0) == 200_B);
    CHECK(tern::weight_room(g, test::with({1000}).with_reserved(test::vram0, {3000}), test::vram0) == 0_B);
    CHECK(tern::weight_room(g, test::with(tern::unlimited), test::vram0) == tern::unlimited);
}

TEST_CASE("plan/roles: the room for staging holds two transfers of the largest slice, with direct reads or without") {
    tern::run_loop home;
    tern::pread_reader reader({.threads = 2, .direct = false});
    struct in_pages final : tern::disk_reader { // as direct reads are cut, over any source
        tern::blocking_reader plain{};
        std::string_view name() const noexcept override { return plain.name(); }
        bool start(tern::read_call& call) override { return plain.start(call); }
        std::size_t alignment() const noexcept override { return 4096; }
        tern::read_counters counters() const override { return plain.counters(); }
        std::string status() const override { return plain.status(); }
        void forget(tern::byte_source&) noexcept override {}
    } pages;
    tern::emulated_device gpu{{.capacity = 32_MiB}};
    for (const std::size_t n :
         {1u, 4096u, 4097u, 1'000'000u, 1u << 20, (1u << 20) + 1, 1'500'000u, 3u << 20, (8u << 20) - 1, 11u << 20}) {
        CAPTURE(n);
        tern::graph g;
        test::add(g, "small", 1, test::anywhere());
        test::add(g, "large", n, test::anywhere());
        for (const std::uint64_t offset : {0, 1, 4095}) {
            CAPTURE(offset);
            test::counting_source source(n + static_cast<std::size_t>(offset));
            for (tern::disk_reader* disk :
                 {static_cast<tern::disk_reader*>(nullptr), static_cast<tern::disk_reader*>(&pages)}) {
                tern::heap_arena staging;
                const tern::allocation there = gpu.memory().allocate({n}, "large");
                tern::transfer_request request{.from = {.file = &source, .offset = offset},
                                               .to = there.data(),
                                               .size = {n},
                                               .on = &gpu,
                                               .staging = &staging,
                                               .disk = disk,
                                               .home = &home};
                home.run(tern::prefetched<16>::move(std::move(request)));
                CHECK(std::memcmp(there.data(), source.data.data() + offset, n) == 0);
                CHECK(2 * staging.budget().peak().count <= tern::staging_room(g).count);
            }
        }
    }
    CHECK(tern::staging_room({}).count > 0);
}
