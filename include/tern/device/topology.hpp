// Which cores this process may use: the physical ones among those that affinity, cpuset and quota allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sched.h>

namespace tern {

/// One logical processor as the system describes it.
struct logical_cpu {
    int id = 0;
    int first_sibling = 0;   ///< lowest id among the threads of its physical core
    bool performance = true; ///< false for the efficiency cores of a hybrid processor
};

/// What the process may run on. `quota` is the number of processors that a control group grants, 0 for no limit.
struct cpu_topology {
    std::vector<logical_cpu> allowed;
    double quota = 0;
};

/// Workers that one memory- or compute-bound operator should use: one for each allowed physical core, performance cores
/// alone where a processor has both kinds, and no more than the quota. Two threads of a core share its units, and an
/// efficiency core makes the others wait for it. At least 1.
template <class = void> std::size_t worker_count(const cpu_topology& topology) {
    bool any_performance = false;
    for (const logical_cpu& cpu : topology.allowed) any_performance = any_performance || cpu.performance;
    std::vector<int> cores;
    for (const logical_cpu& cpu : topology.allowed) {
        if (any_performance && !cpu.performance) continue;
        bool seen = false;
        for (const int core : cores) seen = seen || core == cpu.first_sibling;
        if (!seen) cores.push_back(cpu.first_sibling);
    }
    std::size_t count = cores.empty() ? 1 : cores.size();
    if (topology.quota > 0 && topology.quota < static_cast<double>(count)) {
        count = static_cast<std::size_t>(topology.quota);
        if (static_cast<double>(count) < topology.quota) ++count;
    }
    return count;
}

namespace detail {

/// The first line of a small file of the system, or empty.
template <class = void> std::string first_line(const std::string& path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
    char line[4096];
    if (!file || std::fgets(line, sizeof line, file.get()) == nullptr) return {};
    std::string text = line;
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

/// Numbers of a list such as "0-3,8,10-11"; what is no number ends it.
template <class = void> std::vector<int> parse_cpu_list(const std::string& text) {
    std::vector<int> ids;
    const char* at = text.c_str();
    while (*at >= '0' && *at <= '9') {
        char* end = nullptr;
        const long first = std::strtol(at, &end, 10);
        long last = first;
        if (*end == '-') last = std::strtol(end + 1, &end, 10);
        if (first < 0 || last < first || last > 1 << 16) break;
        for (long id = first; id <= last; ++id) ids.push_back(static_cast<int>(id));
        at = *end == ',' ? end + 1 : end;
    }
    return ids;
}

inline bool contains(const std::vector<int>& ids, int id) {
    for (const int i : ids)
        if (i == id) return true;
    return false;
}

} // namespace detail

/// Reads the system's description below `root` ("/sys" and "/sys/fs/cgroup" normally; a test passes a folder of its
/// own) for the processors in `allowed`. What cannot be read is taken as one core for each processor.
template <class = void> cpu_topology read_topology(const std::vector<int>& allowed, const std::string& root = "/sys") {
    cpu_topology topology;
    // Intel's hybrid processors list their performance cores here; others have no such file.
    const std::vector<int> performance = detail::parse_cpu_list(detail::first_line(root + "/devices/cpu_core/cpus"));
    // Elsewhere each core may have a capacity. It differs a little among the fast ones too (one is often chosen for its
    // peak clock), and is less than half of the largest for those made to save power.
    std::vector<int> capacity;
    int largest = 0;
    for (const int id : allowed) {
        const std::string cpu = root + "/devices/system/cpu/cpu" + std::to_string(id);
        capacity.push_back(std::atoi(detail::first_line(cpu + "/cpu_capacity").c_str()));
        largest = capacity.back() > largest ? capacity.back() : largest;
    }
    for (std::size_t i = 0; i < allowed.size(); ++i) {
        const int id = allowed[i];
        const std::string cpu = root + "/devices/system/cpu/cpu" + std::to_string(id);
        const std::vector<int> siblings =
            detail::parse_cpu_list(detail::first_line(cpu + "/topology/thread_siblings_list"));
        const bool fast = performance.empty() ? 2 * capacity[i] >= largest : detail::contains(performance, id);
        topology.allowed.push_back({id, siblings.empty() ? id : siblings.front(), fast});
    }
    const std::string quota = detail::first_line(root + "/fs/cgroup/cpu.max");
    char* end = nullptr;
    const double granted = std::strtod(quota.c_str(), &end);
    const double period = std::strtod(end, nullptr);
    if (granted > 0 && period > 0) topology.quota = granted / period;
    return topology;
}

/// The processors that this process's affinity mask allows.
template <class = void> std::vector<int> allowed_cpus() {
    std::vector<int> ids;
    // The mask's size is the kernel's choice: grow until it is taken.
    for (std::size_t count = 1024; count <= 1 << 16; count *= 2) {
        const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count), [](cpu_set_t* s) { CPU_FREE(s); });
        const std::size_t size = CPU_ALLOC_SIZE(count);
        if (!set) break;
        if (::sched_getaffinity(0, size, set.get()) != 0) continue;
        for (std::size_t id = 0; id < count; ++id)
            if (CPU_ISSET_S(id, size, set.get())) ids.push_back(static_cast<int>(id));
        break;
    }
    if (ids.empty()) ids.push_back(0);
    return ids;
}

/// Workers for this process on this machine.
template <class = void> std::size_t usable_workers() { return worker_count(read_topology(allowed_cpus())); }

} // namespace tern
