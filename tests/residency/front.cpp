#include <tern/residency/front.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <tern/device/cpu.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/residency/pool.hpp>

namespace {

using tern::copy_usage;
using tern::detail::copy_entry;

/// A pool with copies that come, are used, leased, kept and leave as numbers are drawn; and the plain way to find who
/// leaves.
struct crowd {
    static constexpr std::size_t slices = 400;

    tern::heap_arena ram{};
    tern::cpu_device cpu{ram, 1};
    std::uint64_t tick = 0;
    tern::detail::pool pool{cpu, tick};
    std::vector<copy_entry> entries{slices};
    std::vector<copy_usage> usages{slices};
    std::mt19937 random;

    explicit crowd(unsigned seed) : random(seed) {
        for (std::size_t i = 0; i < slices; ++i) usages[i].slice = entries[i].slice = static_cast<std::uint32_t>(i);
    }

    void step(std::size_t i, const tern::eviction_policy& policy) {
        copy_entry& c = entries[i];
        const unsigned what = random() % 16;
        if (!c.there) {
            c.there = c.fresh = true;
            c.stay = tern::retention::cache;
            c.cause = what < 4 ? tern::arrival_cause::ahead : tern::arrival_cause::demand;
            pool.expect_more(1);
            pool.enter(c, usages[i]);
        } else if (what < 9) {
            pool.used(c, usages[i]);
        } else if (what == 9) {
            c.leases = c.leases == 0 ? 1 : 0;
        } else if (what == 10) {
            c.stay = c.stay == tern::retention::keep ? tern::retention::cache : tern::retention::keep;
            pool.retention_changed();
        } else if (what == 11) { // a copy elsewhere is used
            ++tick;
            policy.used(usages[i], tick);
        } else if (what == 12) {
            c.awaited = true;
        } else {
            drop(c);
        }
    }
    void drop(copy_entry& c) {
        pool.leave(c, usages[c.slice]);
        c.there = c.awaited = false;
        c.leases = 0;
    }

    const copy_entry* expected(const tern::eviction_policy& policy, int highest) const {
        for (int rank = 0; rank <= highest; ++rank) {
            const copy_entry* found = nullptr;
            double worth = 0;
            for (const copy_entry& c : entries) {
                const int mine = c.awaited ? 2 : c.fresh && c.cause == tern::arrival_cause::ahead ? 1 : 0;
                if (!c.there || c.leases != 0 || c.stay == tern::retention::keep || mine != rank) continue;
                const double w = policy.worth(usages[c.slice], tick);
                if (found != nullptr && !tern::leaves_before(usages[c.slice], w, usages[found->slice], worth)) continue;
                found = &c;
                worth = w;
            }
            if (found != nullptr) return found;
        }
        return nullptr;
    }
};

/// A user's own, which the front may not serve.
struct by_phase final : tern::eviction_policy {
    std::string_view name() const noexcept override { return "by_phase"; }
    double worth(const copy_usage& u, std::uint64_t now) const noexcept override {
        return static_cast<double>((u.slice + now) % 97);
    }
};

std::shared_ptr<const tern::eviction_policy> make(int which) {
    if (which == 0) return std::make_shared<tern::lru>();
    if (which == 1) return std::make_shared<tern::frequency>(3000.0);
    if (which == 2) return std::make_shared<tern::pinned_set>(std::vector<std::uint32_t>{1, 5, 9, 100, 200, 201, 202});
    return std::make_shared<by_phase>();
}

} // namespace

TEST_CASE("residency/front: who leaves is who leaves when all are looked at, whatever happened between") {
    for (int which = 0; which < 4; ++which)
        for (unsigned seed = 1; seed <= 12; ++seed) {
            CAPTURE(which);
            CAPTURE(seed);
            const auto policy = make(which);
            crowd c(seed);
            c.pool.judge_by(policy);
            const std::size_t crowded = seed % 3 == 0 ? 40 : crowd::slices; // small pools are in the front as a whole
            bool same = true;
            for (int i = 0; i < 6000 && same; ++i) {
                c.step(c.random() % crowded, *policy);
                if (c.random() % 4 != 0) continue;
                const bool demand = c.random() % 2 == 0;
                copy_entry* const leaves =
                    c.pool.victim(demand ? tern::arrival_cause::demand : tern::arrival_cause::ahead);
                same = leaves == c.expected(*policy, demand ? 2 : 0);
                if (leaves != nullptr && c.random() % 2 == 0) c.drop(*leaves);
            }
            CHECK(same);
        }
}

TEST_CASE("residency/front: it takes one look at all copies for many that leave") {
    struct counting final : tern::eviction_policy {
        mutable std::size_t asked = 0;
        std::string_view name() const noexcept override { return "counting"; }
        bool rises_by_use_alone() const noexcept override { return true; }
        double worth(const copy_usage& u, std::uint64_t) const noexcept override {
            ++asked;
            return tern::lru::recency(u);
        }
    };
    const auto policy = std::make_shared<counting>();
    crowd c(1);
    c.pool.judge_by(policy);
    for (std::size_t i = 0; i < crowd::slices; ++i) {
        copy_entry& e = c.entries[i];
        e.there = e.fresh = true;
        e.stay = tern::retention::cache;
        c.pool.expect_more(1);
        c.pool.enter(e, c.usages[i]);
        c.pool.used(e, c.usages[i]);
    }
    policy->asked = 0;
    for (std::size_t i = 0; i < 300; ++i) {
        copy_entry* const leaves = c.pool.victim(tern::arrival_cause::demand);
        REQUIRE(leaves == &c.entries[i]);
        c.drop(*leaves);
    }
    const std::size_t all_each_time = 300 * (crowd::slices + 100) / 2;
    CHECK(policy->asked < all_each_time / 4);
}
