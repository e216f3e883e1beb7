// Choosing the next token from logits: greedy, or drawn after the usual cuts.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tern/base/error.hpp>

namespace tern::kernel {

/// How to choose. The order is fixed: penalty, top-k, top-p, min-p, temperature. So top-p and min-p look at the
/// probabilities at temperature 1.
struct sampling {
    float temperature = 0;           // 0: greedy, the greatest logit after the penalty
    std::int32_t top_k = 0;          // keep the k greatest; 0 for all
    float top_p = 1;                 // keep the fewest greatest whose probabilities sum to top_p; 1 for all
    float min_p = 0;                 // keep those at least min_p times as probable as the greatest; 0 for all
    float repetition_penalty = 1;    // divides positive logits of recent tokens, multiplies the others (Keskar, 2019)
    std::size_t penalty_window = 64; // how many of the recent tokens count
    std::uint64_t seed = 0;
};

/// A token and its probability.
struct candidate {
    std::int32_t id;
    float probability;
};

/// Uniform numbers from a counter: SplitMix64 (Steele, Lea and Flood, 2014). Integer arithmetic only, so the same seed
/// gives the same numbers everywhere.
class counter_random {
public:
    constexpr explicit counter_random(std::uint64_t seed) noexcept : state_(seed) {}

    constexpr std::uint64_t bits() noexcept {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    /// In [0, 1), in steps of 2^-53.
    constexpr double uniform() noexcept { return static_cast<double>(bits() >> 11) * 0x1p-53; }

private:
    std::uint64_t state_;
};

/// Chooses token after token; holds the random state and scratch, so after the first call nothing is allocated. Equal
/// logits go in order of id, greedy takes the lowest. NaN logits are never chosen. Not for use by two threads at once.
///
///     tern::kernel::sampler next{{.temperature = 0.8f, .top_p = 0.95f, .seed = 7}};
///     auto id = next(logits, history);
template <class = void> class basic_sampler {
public:
    /// Throws config_error where a setting is out of its range.
    explicit basic_sampler(const sampling& how) : how_(how), random_(how.seed) {
        check(how.temperature >= 0 && std::isfinite(how.temperature), "temperature must be 0 or a positive number");
        check(how.top_k >= 0, "top_k must be 0 (for all) or positive");
        check(how.top_p > 0 && how.top_p <= 1, "top_p must be above 0 and at most 1");
        check(how.min_p >= 0 && how.min_p <= 1, "min_p must be between 0 and 1");
        check(how.repetition_penalty > 0 && std::isfinite(how.repetition_penalty),
              "repetition_penalty must be a positive number (1 for none)");
    }

    const sampling& settings() const noexcept { return how_; }

    /// The next token. The penalty is applied to `logits` in place. `recent` holds the tokens so far, the newest last.
    /// Throws shape_error where logits is empty or a recent token is not in the vocabulary, error where every logit is
    /// NaN.
    std::int32_t operator()(std::span<float> logits, std::span<const std::int32_t> recent = {}) {
        penalise(logits, recent);
        const std::int32_t best = greatest(logits);
        if (how_.temperature == 0) return best;
        keep(logits, logits[static_cast<std::size_t>(best)]);
        return draw(logits, logits[static_cast<std::size_t>(best)]);
    }

    /// The `count` most probable tokens (fewer where the vocabulary is smaller), the most probable first, at
    /// temperature 1 without cuts. The view holds until the next call. Throws as operator() does.
    std::span<const candidate> top_probabilities(std::span<const float> logits, std::size_t count) {
        const float most = logits[static_cast<std::size_t>(greatest(logits))];
        all(logits);
        double total = 0;
        for (const std::int32_t id : ids_) total += weight(at(logits, id), most);
        heap(logits);
        top_.clear();
        for (std::size_t left = ids_.size(); left > 0 && top_.size() < count; --left) {
            const std::int32_t id = pop(logits, left);
            top_.push_back({id, static_cast<float>(weight(at(logits, id), most) / total)});
        }
        return top_;
    }

private:
    static void check(bool good, const char* what) {
        if (!good) throw config_error(std::string("sampling: ") + what);
    }

    static float at(std::span<const float> logits, std::int32_t id) { return logits[static_cast<std::size_t>(id)]; }

    /// exp(logit - most), 1 for the greatest itself even where it is infinite.
    static double weight(float logit, float most, double temperature = 1) {
        return logit == most ? 1 : std::exp((double(logit) - double(most)) / temperature);
    }

    void penalise(std::span<float> logits, std::span<const std::int32_t> recent) {
        if (how_.repetition_penalty == 1) return;
        if (recent.size() > how_.penalty_window) recent = recent.last(how_.penalty_window);
        for (const std::int32_t id : recent)
            if (id < 0 || static_cast<std::size_t>(id) >= logits.size())
                throw shape_error("sampling: recent token " + std::to_string(id) + " is not in the vocabulary of " +
                                  std::to_string(logits.size()) + "; pass token ids of this model");
        seen_.resize(logits.size());
        for (const std::int32_t id : recent) {
            const auto i = static_cast<std::size_t>(id);
            if (seen_[i]) continue; // once, however often it occurs
            seen_[i] = 1;
            logits[i] = logits[i] > 0 ? logits[i] / how_.repetition_penalty : logits[i] * how_.repetition_penalty;
        }
        for (const std::int32_t id : recent) seen_[static_cast<std::size_t>(id)] = 0;
    }

    static std::int32_t greatest(std::span<const float> logits) {
        if (logits.empty() || logits.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
            throw shape_error("sampling: " + std::to_string(logits.size()) + " logits; pass one for each token");
        std::size_t best = logits.size();
        for (std::size_t i = 0; i < logits.size(); ++i)
            if (logits[i] == logits[i] && (best == logits.size() || logits[i] > logits[best])) best = i;
        if (best == logits.size())
            throw error("sampling: every logit is NaN; check the weights and the prompt of this model");
        return static_cast<std::int32_t>(best);
    }

    /// All ids with a number, in order.
    void all(std::span<const float> logits) {
        ids_.clear();
        ids_.reserve(logits.size());
        for (std::size_t i = 0; i < logits.size(); ++i)
            if (logits[i] == logits[i]) ids_.push_back(static_cast<std::int32_t>(i));
    }

    /// Leaves in ids_ what the cuts leave.
    void keep(std::span<const float> logits, float most) {
        all(logits);
        std::size_t kept = 0;
        if (how_.top_k == 0 && how_.top_p == 1) { // no order is needed
            for (const std::int32_t id : ids_)
                if (weight(at(logits, id), most) >= double(how_.min_p)) ids_[kept++] = id;
            ids_.resize(kept);
            return;
        }
        const std::size_t size = ids_.size();
        std::size_t limit = how_.top_k == 0 ? size : static_cast<std::size_t>(how_.top_k);
        if (limit > size) limit = size;
        heap(logits);
        double total = 0;
        if (limit == size)
            for (const std::int32_t id : ids_) total += weight(at(logits, id), most);
        else { // pop moves each greatest to the end of the heap
            for (std::size_t left = size; left > size - limit; --left)
                total += weight(at(logits, pop(logits, left)), most);
        }
        double sum = 0;
        kept_.clear();
        kept_.reserve(size);
        for (std::size_t left = size; left > size - limit; --left) {
            const std::int32_t id = limit == size ? pop(logits, left) : ids_[left - 1];
            const double w = weight(at(logits, id), most);
            if (w < double(how_.min_p)) break; // the rest is less probable still
            kept_.push_back(id);
            sum += w;
            if (how_.top_p < 1 && sum >= double(how_.top_p) * total) break;
        }
        ids_.swap(kept_);
    }

    std::int32_t draw(std::span<const float> logits, float most) {
        double total = 0;
        for (const std::int32_t id : ids_) total += weight(at(logits, id), most, double(how_.temperature));
        double rest = random_.uniform() * total;
        std::int32_t last = ids_.front(); // where rounding leaves a rest: the last that has a weight
        for (const std::int32_t id : ids_) {
            const double w = weight(at(logits, id), most, double(how_.temperature));
            if (w > 0) last = id;
            rest -= w;
            if (rest < 0) break;
        }
        return last;
    }

    // A heap of ids, the greatest logit on top and of equal ones the lowest id. Written out because <algorithm> costs
    // more to include than all of this header.
    static bool before(std::span<const float> logits, std::int32_t a, std::int32_t b) {
        return at(logits, a) != at(logits, b) ? at(logits, a) > at(logits, b) : a < b;
    }

    void sink(std::span<const float> logits, std::size_t i, std::size_t size) {
        for (std::size_t child; (child = 2 * i + 1) < size; i = child) {
            if (child + 1 < size && before(logits, ids_[child + 1], ids_[child])) ++child;
            if (!before(logits, ids_[child], ids_[i])) return;
            const std::int32_t up = ids_[child];
            ids_[child] = ids_[i];
            ids_[i] = up;
        }
    }

    void heap(std::span<const float> logits) {
        for (std::size_t i = ids_.size() / 2; i > 0; --i) sink(logits, i - 1, ids_.size());
    }

    /// Takes the top of a heap of `size` and leaves it at ids_[size - 1].
    std::int32_t pop(std::span<const float> logits, std::size_t size) {
        const std::int32_t top = ids_[0];
        ids_[0] = ids_[size - 1];
        ids_[size - 1] = top;
        sink(logits, 0, size - 1);
        return top;
    }

    sampling how_;
    counter_random random_;
    std::vector<std::int32_t> ids_;
    std::vector<std::int32_t> kept_;
    std::vector<unsigned char> seen_;
    std::vector<candidate> top_;
};

/// The sampler. (A template underneath, so that a program compiles it only where it is used.)
using sampler = basic_sampler<>;

} // namespace tern::kernel
