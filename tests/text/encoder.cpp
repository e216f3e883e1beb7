#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include <tern/text/encoder.hpp>
#include <tern/text/tokenizer.hpp>

namespace {

using namespace tern;

/// A user's own family: one token a byte, numbered as the byte.
struct bytes_only final : text_encoder {
    void encode(std::string_view text, bool, std::vector<token_id>& out) const override {
        for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    }
    std::string piece(token_id id) const override { return std::string(1, static_cast<char>(id)); }
    encoder_defaults defaults() const noexcept override { return {}; }
};

TEST_CASE("text/encoder: a user's own family works through the same tokenizer") {
    vocabulary v;
    v.model = "test-bytes";
    for (int b = 0; b < 256; ++b) v.tokens.push_back("byte " + std::to_string(b));
    CHECK_THROWS_AS(make_tokenizer(v), unsupported_error);
    CHECK(add_tokenizer_family("test-bytes", [](const vocabulary&) -> std::unique_ptr<text_encoder> {
        return std::make_unique<bytes_only>();
    }));
    const tokenizer t = make_tokenizer(v);
    CHECK(t.encode("az") == std::vector<token_id>{'a', 'z'});
    CHECK(t.decode(t.encode("\xFF any")) == "\xFF any");
}

} // namespace
