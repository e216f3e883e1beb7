// A ragged batch: tokens of several sequences, each with its position, in one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tern/base/error.hpp>

namespace tern {

/// Tokens [n], their positions in their sequences, the sequences they belong to, and the rows whose logits are wanted.
/// Tokens of one sequence come in order of position; sequences may be interleaved in any way.
///
///     tern::batch b;
///     b.add(prompt, 0);                 // a prompt of sequence 0, from position 0; logits of its last token
///     b.add(token, 17, 1);              // one token of sequence 1, at position 17
struct batch {
    std::vector<std::int32_t> tokens{};
    std::vector<std::int32_t> positions{};
    std::vector<std::int32_t> sequences{};
    std::vector<std::int32_t> outputs{}; ///< rows, ascending

    std::size_t size() const noexcept { return tokens.size(); }

    void clear() noexcept {
        tokens.clear();
        positions.clear();
        sequences.clear();
        outputs.clear();
    }

    /// One token; `want_logits` marks its row as an output.
    void add(std::int32_t token, std::size_t position, std::size_t sequence = 0, bool want_logits = true) {
        if (position > max || sequence > max || tokens.size() >= max)
            throw shape_error("a batch position, sequence or size is out of range");
        if (want_logits) outputs.push_back(static_cast<std::int32_t>(tokens.size()));
        tokens.push_back(token);
        positions.push_back(static_cast<std::int32_t>(position));
        sequences.push_back(static_cast<std::int32_t>(sequence));
    }

    /// A run of tokens from position `start`; logits for the last one alone, or for all.
    void add(std::span<const std::int32_t> run, std::size_t start = 0, std::size_t sequence = 0,
             bool want_all_logits = false) {
        for (std::size_t i = 0; i < run.size(); ++i)
            add(run[i], start + i, sequence, want_all_logits || i + 1 == run.size());
    }

private:
    static constexpr std::size_t max = 0x7fffffff;
};

} // namespace tern
