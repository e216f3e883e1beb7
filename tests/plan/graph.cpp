// Graphs of real decoders: every tensor of the file once, calls in the order of the arithmetic.
#include <tern/plan/graph.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <support/data.hpp>
#include <support/model.hpp>

namespace test = tern::test;

namespace {

std::string file(const char* name) { return test::source_file(std::string("tests/data/logits/") + name + ".gguf"); }

} // namespace

TEST_CASE("plan/graph: every tensor of a file is there once, with its bytes, whatever the architecture") {
    for (const char* name : {"llama_tied", "llama_untied", "llama_moe", "qwen2", "qwen3", "qwen3moe", "gemma3"}) {
        CAPTURE(name);
        test::model m(file(name), {.threads = 1});
        const tern::graph g = m.record(7);
        std::set<std::string> names;
        for (const tern::planned_tensor& t : g.tensors) {
            CHECK(names.insert(t.name).second);
            CHECK(t.size().count == m.file().at(t.name).bytes);
            CHECK(t.format == m.file().at(t.name).format);
            CHECK(t.allows(tern::tier_of<tern::vram>));
            CHECK(t.allowed.size() == 5);
            CHECK((t.move != nullptr));
        }
        CHECK(names.size() == m.file().tensors().size());
        CHECK(g.activation_peak.count > 0);
        CHECK(m.record(14).activation_peak > g.activation_peak);
        CHECK(m.run().ram().budget().peak() == tern::bytes{}); // recording computes nothing
    }
}

TEST_CASE("plan/graph: the calls of a llama layer, in order") {
    test::model m(file("llama_untied"), {.threads = 1});
    const tern::graph g = m.record(5);
    std::vector<std::string_view> ops;
    for (const tern::graph_node& n : g.nodes) ops.push_back(n.op);
    const std::vector<std::string_view> layer{"rms_norm",     "linear",    "linear", "linear", "rope",
                                              "rope",         "attention", "linear", "add",    "rms_norm",
                                              "gated_linear", "linear",    "add"};
    std::vector<std::string_view> expected{"rope_angles", "embed"};
    for (std::size_t i = 0; i < m.config().layers; ++i) expected.insert(expected.end(), layer.begin(), layer.end());
    for (const char* op : {"select_rows", "rms_norm", "linear"}) expected.push_back(op);
    CHECK(ops == expected);
    CHECK(g.nodes.back().rows == 1); // of five tokens, the last one's logits
    CHECK(g.nodes.back().cols == m.config().vocabulary);
    CHECK(g.tensors[g.nodes.back().tensors[0]].name == "output.weight");
    CHECK(g.nodes[1].rows == 5);
    for (const tern::graph_node& n : g.nodes)
        if (n.op == "gated_linear") CHECK(n.tensors.size() == 2);
}
