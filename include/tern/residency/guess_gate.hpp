// Whether guessing pays: measured, and switched off while it does not.
#pragma once

#include <cstdint>

#include <tern/base/units.hpp>

namespace tern {

/// Compares what guesses brought and saved with what they brought in vain, in bytes of the same link. After each
/// `window` of outcomes with a loss it stays closed, twice as long each time; a window with a gain resets that.
///
///     if (gate.open()) store.guess(...);
///     gate.judge(counters.guess_used, counters.guess_wasted);
class guess_gate {
public:
    explicit guess_gate(bytes window = bytes{}) noexcept : window_(window) {}

    /// Asked once a step.
    bool open() noexcept {
        if (closed_for_ == 0) return true;
        --closed_for_;
        return false;
    }
    bool closed() const noexcept { return closed_for_ != 0; }

    /// Totals so far.
    void judge(bytes used, bytes wasted) noexcept {
        const std::uint64_t gain = used.count - used_.count;
        const std::uint64_t loss = wasted.count - wasted_.count;
        if (gain + loss < window_.count || gain + loss == 0) return;
        used_ = used;
        wasted_ = wasted;
        if (gain >= loss) {
            pause_ = first_pause;
        } else {
            closed_for_ = pause_;
            pause_ = pause_ < longest_pause ? 2 * pause_ : pause_;
        }
    }

private:
    static constexpr std::uint64_t first_pause = 256; // steps
    static constexpr std::uint64_t longest_pause = 1 << 20;

    bytes window_;
    bytes used_{};
    bytes wasted_{};
    std::uint64_t closed_for_ = 0;
    std::uint64_t pause_ = first_pause;
};

} // namespace tern
