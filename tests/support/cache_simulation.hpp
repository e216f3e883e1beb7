// A cache of experts without experts: counts how often a policy, and what cannot be beaten, would have found one there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <list>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tern/residency/eviction.hpp>

namespace tern::test {

/// Accesses in order; `slices` ids from 0. Access (layer, expert) is slice layer * experts + expert.
struct routing_trace {
    std::size_t slices = 0;
    std::vector<std::uint32_t> accesses{};
};

/// Reads a file of tests/golden/zipf_trace.py.
inline routing_trace read_routing_trace(const std::string& path) {
    const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::ifstream in(path);
    std::string line;
    if (!std::getline(in, line)) throw std::runtime_error("cannot read " + path);
    const auto number = [&](const std::string& key) {
        const std::size_t at = line.find(" " + key + "=");
        if (at == line.npos) throw std::runtime_error(path + " has no " + key);
        return std::stoul(line.substr(at + key.size() + 2));
    };
    const std::size_t tokens = number("tokens"), layers = number("layers"), experts = number("experts");
    const std::size_t used = number("used");
    routing_trace trace{layers * experts, {}};
    while (std::getline(in, line)) {
        if (line.size() != layers * used) throw std::runtime_error(path + " has a line of another length");
        for (std::size_t i = 0; i < line.size(); ++i) {
            const std::size_t expert = letters.find(line[i]);
            if (expert >= experts) throw std::runtime_error(path + " has an unknown expert");
            trace.accesses.push_back(static_cast<std::uint32_t>(i / used * experts + expert));
        }
    }
    if (trace.accesses.size() != tokens * layers * used) throw std::runtime_error(path + " lacks tokens");
    return trace;
}

/// The `count` slices that the first `accesses` name most often (ties: the lower id).
inline std::vector<std::uint32_t> most_frequent(const routing_trace& trace, std::size_t count, std::size_t accesses) {
    std::vector<std::pair<std::size_t, std::uint32_t>> order;
    for (std::uint32_t id = 0; id < trace.slices; ++id) order.push_back({0, id});
    for (std::size_t i = 0; i < accesses; ++i) ++order[trace.accesses[i]].first;
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::uint32_t> best;
    for (std::size_t i = 0; i < count; ++i) best.push_back(order[i].second);
    return best;
}

/// For each access, when its slice is accessed next; the number of accesses where it never is.
inline std::vector<std::size_t> next_accesses(const routing_trace& trace) {
    std::vector<std::size_t> next(trace.accesses.size()), seen(trace.slices, trace.accesses.size());
    for (std::size_t i = trace.accesses.size(); i-- > 0;) {
        next[i] = seen[trace.accesses[i]];
        seen[trace.accesses[i]] = i;
    }
    return next;
}

/// Hits of a policy in a cache of `capacity` slices, empty at first. What is used is always brought in. The next
/// `ahead` accesses are known: what they need leaves only where there is nothing else, the latest needed first.
inline std::size_t hits_of(const eviction_policy& policy, const routing_trace& trace, std::size_t capacity,
                           std::size_t ahead = 0) {
    const std::vector<std::size_t> next = next_accesses(trace);
    std::vector<copy_usage> usage(trace.slices);
    for (std::uint32_t id = 0; id < trace.slices; ++id) usage[id].slice = id;
    std::vector<std::size_t> needed(trace.slices); // when, the next time
    std::vector<std::uint32_t> cached;
    std::size_t hits = 0;
    for (std::size_t i = 0; i < trace.accesses.size(); ++i) {
        const std::uint32_t id = trace.accesses[i];
        const std::uint64_t now = i + 1;
        if (std::find(cached.begin(), cached.end(), id) != cached.end()) {
            ++hits;
        } else {
            if (cached.size() == capacity) {
                victim_search search(policy, now);
                for (const std::uint32_t other : cached)
                    if (needed[other] > i + ahead) search.offer(usage[other]);
                const auto latest = std::max_element(cached.begin(), cached.end(),
                                                     [&](auto a, auto b) { return needed[a] < needed[b]; });
                std::erase(cached, search.found() != nullptr ? search.found()->slice : std::uint32_t{*latest});
            }
            cached.push_back(id);
            policy.arrived(usage[id], now);
        }
        policy.used(usage[id], now);
        needed[id] = next[i];
    }
    return hits;
}

/// Hits of least recently used, by the textbook's list.
inline std::size_t hits_of_lru_list(const routing_trace& trace, std::size_t capacity) {
    std::list<std::uint32_t> order; // the latest in front
    std::unordered_map<std::uint32_t, std::list<std::uint32_t>::iterator> cached;
    std::size_t hits = 0;
    for (const std::uint32_t id : trace.accesses) {
        if (const auto found = cached.find(id); found != cached.end()) {
            ++hits;
            order.splice(order.begin(), order, found->second);
            continue;
        }
        if (order.size() == capacity) {
            cached.erase(order.back());
            order.pop_back();
        }
        order.push_front(id);
        cached[id] = order.begin();
    }
    return hits;
}

/// Most hits that any policy can have which knows the future: what is used last leaves first.
/// Source: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
inline std::size_t hits_of_belady(const routing_trace& trace, std::size_t capacity) {
    const std::vector<std::size_t> next = next_accesses(trace);
    std::unordered_map<std::uint32_t, std::size_t> cached; // slice, when it is next used
    std::size_t hits = 0;
    for (std::size_t i = 0; i < trace.accesses.size(); ++i) {
        if (cached.contains(trace.accesses[i]))
            ++hits;
        else if (cached.size() == capacity)
            cached.erase(std::max_element(cached.begin(), cached.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; }));
        cached[trace.accesses[i]] = next[i];
    }
    return hits;
}

} // namespace tern::test
