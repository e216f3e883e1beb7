#include <tern/cost/fingerprint.hpp>

#include <doctest/doctest.h>

#include <tern/cost/presets.hpp>

TEST_CASE("cost/fingerprint: budgets and rates do not change it, parts do") {
    const tern::machine m = tern::machines::rtx4090_64g();
    const std::string print = tern::fingerprint(m);
    CHECK(print.find("RTX 4090 accelerator 0 vram:0#0") != std::string::npos);
    tern::machine same = m.with_budget<tern::vram>({5}).with_reserved({tern::tier_of<tern::pageable>, 0, 0}, {7});
    same.links[0].bandwidth = tern::bytes_per_second{1};
    same.processors[0].rates.f32 = 1;
    same.processors[1].launch = tern::seconds{1};
    CHECK(tern::fingerprint(same) == print);
    tern::machine other = m;
    other.processors[1].name = "RTX 4090 D";
    CHECK(tern::fingerprint(other) != print);
    other = m;
    other.memories[0].capacity = tern::bytes{1};
    CHECK(tern::fingerprint(other) != print);
    other = m;
    other.links.pop_back();
    CHECK(tern::fingerprint(other) != print);
    other = m;
    other.links[0].bus = "x";
    CHECK(tern::fingerprint(other) != print);
    CHECK(tern::fingerprint(tern::machines::h100()) != tern::fingerprint(tern::machines::h200()));
}
