// Text as it is generated: whole characters only, token by token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tern/text/tokenizer.hpp>
#include <tern/text/utf8.hpp>

namespace tern {

/// Whether a stream of tokens begins a text or goes on after a prompt.
enum class text_position : std::uint8_t { continues, begins };

/// Turns tokens into text as they come, and never cuts a character: the bytes of an unfinished one wait for the tokens
/// that finish it. Bytes that no later byte can turn into a character become one U+FFFD per run as soon as that is
/// certain; a character that is still unfinished at finish() becomes one there. So the output is valid UTF-8, and what
/// push and finish gave, joined, is decode() of the tokens with U+FFFD for what is no text.
///
///     tern::text_stream stream(tokenizer);
///     for (tern::token_id id : generated) std::cout << stream.push(id);
///     std::cout << stream.finish();
class text_stream {
public:
    /// A stream that continues keeps a leading space; one that begins drops it as decode does. Copies the tokenizer,
    /// which is cheap.
    explicit text_stream(tokenizer source, text_position position = text_position::continues,
                         decode_options options = {})
        : source_(std::move(source)), options_(options), at_start_(position == text_position::begins) {}

    /// The characters that this token finishes, maybe none. Valid until the next call. Throws shape_error for an id
    /// outside the vocabulary, and is then unchanged.
    std::string_view push(token_id id) {
        const std::string_view piece = source_.next_piece(id, at_start_, options_);
        ready_.clear();
        waiting_ += piece;
        const std::string_view all = waiting_;
        std::size_t at = 0;
        while (at < all.size()) {
            const utf8_step step = next_utf8(all.substr(at));
            if (step.kind == utf8_kind::cut) break;
            ready_ += step.kind == utf8_kind::valid ? all.substr(at, step.size) : replacement_character;
            at += step.size;
        }
        waiting_.erase(0, at);
        return ready_;
    }

    /// What is left: U+FFFD for an unfinished character, or nothing. The stream is then ready for more. Valid until the
    /// next call.
    std::string_view finish() {
        ready_ = waiting_.empty() ? std::string_view() : replacement_character;
        waiting_.clear();
        return ready_;
    }

private:
    tokenizer source_;
    decode_options options_;
    bool at_start_;
    std::string waiting_{}; ///< at most three bytes between calls
    std::string ready_{};
};

} // namespace tern
