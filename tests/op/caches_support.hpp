// Batches and rows for the tests of caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tern/op/kv_cache.hpp>

namespace tern::test {

inline constexpr kv_shape small_cache{.layers = 2, .width = 3, .context = 10, .sequences = 3};

/// `count` tokens that continue a sequence.
template <kv_cache Cache> batch more(const Cache& kv, std::size_t sequence, std::size_t count) {
    batch b;
    for (std::size_t i = 0; i < count; ++i) b.add(0, kv.length(sequence) + i, sequence);
    return b;
}

/// The key that `fill` writes for a layer, a sequence's mark and a position.
inline float key(std::size_t layer, int mark, std::size_t position) {
    return static_cast<float>(1000 * (layer + 1) + position) + 0.001f * static_cast<float>(mark);
}

/// Reserves and writes a batch with keys of `mark` and values that are their negatives.
template <kv_cache Cache> void fill(Cache& kv, const batch& b, int mark) {
    kv.reserve(b);
    const std::size_t width = kv.shape().width;
    for (std::size_t layer = 0; layer < kv.shape().layers; ++layer) {
        std::vector<float> k(b.size() * width);
        for (std::size_t i = 0; i < k.size(); ++i)
            k[i] = key(layer, mark, static_cast<std::size_t>(b.positions[i / width]));
        std::vector<float> v(k);
        for (float& x : v) x = -x;
        kv.append(layer, b, k.data(), v.data());
    }
}

/// Whether the pages of a sequence show `length` tokens whose keys carry these marks, each mark from a position on.
template <kv_cache Cache> bool shows(const Cache& kv, std::size_t sequence, std::vector<int> marks) {
    const std::size_t width = kv.shape().width;
    for (std::size_t layer = 0; layer < kv.shape().layers; ++layer) {
        const kernel::sequence_pages pages = kv.pages(layer, sequence);
        std::size_t position = 0;
        for (std::size_t p = 0; p < pages.count; ++p)
            for (std::size_t j = 0; j < pages.pages[p].tokens; ++j, ++position)
                for (std::size_t c = 0; c < width; ++c) {
                    if (position >= marks.size()) return false;
                    const float wanted = key(layer, marks[position], position);
                    if (pages.pages[p].k[j * width + c] != wanted || pages.pages[p].v[j * width + c] != -wanted)
                        return false;
                }
        if (position != marks.size()) return false;
    }
    return kv.length(sequence) == marks.size();
}

/// What every cache does: continue, refuse, truncate, copy. Errors leave it as it was.
template <kv_cache Cache> void check_cache(Cache& kv) {
    fill(kv, more(kv, 0, 4), 1);
    CHECK(shows(kv, 0, {1, 1, 1, 1}));
    CHECK(shows(kv, 1, {}));

    batch gap;
    gap.add(0, 4, 0);
    gap.add(0, 6, 0);
    const auto refused = [&](const batch& b, const char* part) {
        bool said = false;
        try {
            kv.reserve(b);
        } catch (const error& e) { said = std::string(e.what()).find(part) != std::string::npos; }
        CHECK(said);
        CHECK(shows(kv, 0, {1, 1, 1, 1}));
        CHECK(shows(kv, 1, {}));
    };
    refused(gap, "position 6 does not continue sequence 0");
    batch behind;
    behind.add(0, 3, 0);
    refused(behind, "truncate");
    batch stranger;
    stranger.add(0, 0, 1);
    stranger.add(0, 0, 3);
    refused(stranger, "sequence 3");
    batch negative;
    negative.add(0, 4, 0);
    negative.sequences[0] = -1;
    refused(negative, "sequence");
    batch uneven;
    uneven.add(0, 4, 0);
    uneven.positions.clear();
    refused(uneven, "positions");
    batch full = more(kv, 1, 2);
    for (std::size_t i = 0; i < 7; ++i) full.add(0, 4 + i, 0);
    refused(full, "context of 10");
    CHECK_THROWS_AS(kv.length(3), shape_error);
    CHECK_THROWS_AS(kv.truncate(3, 0), shape_error);
    CHECK_THROWS_AS(kv.copy(0, 3), shape_error);

    kv.copy(0, 1);
    kv.copy(1, 1);
    fill(kv, more(kv, 1, 2), 2);
    fill(kv, more(kv, 0, 3), 3);
    CHECK(shows(kv, 0, {1, 1, 1, 1, 3, 3, 3}));
    CHECK(shows(kv, 1, {1, 1, 1, 1, 2, 2}));
    kv.truncate(0, 9); // longer than it is
    kv.truncate(0, 2);
    kv.copy(0, 2);
    fill(kv, more(kv, 2, 2), 4);
    fill(kv, more(kv, 0, 1), 5);
    CHECK(shows(kv, 0, {1, 1, 5}));
    CHECK(shows(kv, 1, {1, 1, 1, 1, 2, 2}));
    CHECK(shows(kv, 2, {1, 1, 4, 4}));
    kv.copy(1, 2);
    CHECK(shows(kv, 2, {1, 1, 1, 1, 2, 2}));
    fill(kv, more(kv, 0, 7), 6);
    CHECK(shows(kv, 0, {1, 1, 5, 6, 6, 6, 6, 6, 6, 6}));
    for (std::size_t s = 0; s < 3; ++s) kv.truncate(s, 0);
    CHECK(shows(kv, 1, {}));
}

} // namespace tern::test
