#include <tern/plan/apply.hpp>

#include <stop_token>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/plan/first_fit.hpp>

#include <support/data.hpp>
#include <support/model.hpp>

namespace test = tern::test;

namespace {

const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
const tern::location mapped{tern::tier_of<tern::mapped>, 0, 0};

struct progress final : tern::arrival_listener {
    tern::bytes sum{};
    void arrived(tern::bytes n) override { sum += n; }
};

} // namespace

TEST_CASE(
    "plan/apply: copies go where they were placed, the listener hears of each byte, a second placement moves them") {
    test::model m(test::source_file("tests/data/logits/llama_moe.gguf"), {.threads = 1, .vram = {4 << 20}});
    const tern::graph g = m.record();
    const tern::placement p = tern::first_fit{}.place(g, m.run().machine());
    progress heard;
    m.run().load(p, g, {}, &heard);
    CHECK(heard.sum == tern::bytes_to_load(p, g));
    CHECK(heard.sum == p.bytes_at(g, vram));
    CHECK(m.run().store().counters().moved == heard.sum);
    const auto there = [&](const tern::location& where) {
        std::size_t count = 0;
        for (const tern::planned_tensor& t : g.tensors)
            for (std::size_t e = 0; e < t.shape.experts; ++e)
                for (const tern::location& l : m.run().store().where(t.first + static_cast<tern::slice_id>(e)))
                    count += l == where;
        return count;
    };
    CHECK(there(vram) > g.tensors.size() / 2);
    m.place(std::vector<tern::location>(g.tensors.size(), mapped));
    CHECK(there(vram) == 0);
    CHECK(there(mapped) == m.run().store().slices());
    CHECK(m.run().store().counters().moved == heard.sum); // giving up copies moved nothing
}

TEST_CASE("plan/apply: a stop keeps what arrived and is reported; no device is named") {
    test::model m(test::source_file("tests/data/logits/llama_tied.gguf"), {.threads = 1, .vram = {4 << 20}});
    const tern::graph g = m.record();
    std::stop_source stop;
    stop.request_stop();
    const tern::placement p = tern::first_fit{}.place(g, m.run().machine());
    CHECK_THROWS_AS(m.run().load(p, g, stop.get_token()), tern::stopped_error);
    CHECK(m.run().accelerator()->memory().budget().used() == tern::bytes{});
    m.run().load(p, g);
    CHECK(m.run().accelerator()->memory().budget().used() >= p.bytes_at(g, vram));
    try {
        m.run().loop().run(tern::apply(p, g, m.run().store(), m.run().devices().first(1)));
        FAIL("the accelerator is not among the devices");
    } catch (const tern::config_error& e) {
        CHECK(!e.tensor().empty());
        CHECK(std::string(e.what()).find("vram:0") != std::string::npos);
    }
}
