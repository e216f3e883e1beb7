#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <unistd.h>

#include <tern/device/topology.hpp>

namespace {

/// A system's description in a folder of its own, removed at the end.
class fake_system {
public:
    fake_system() {
        std::string name = (std::filesystem::temp_directory_path() / "tern-topology-XXXXXX").string();
        root = ::mkdtemp(name.data()) != nullptr ? name : throw std::runtime_error("no temporary folder");
    }
    fake_system(const fake_system&) = delete;
    fake_system& operator=(const fake_system&) = delete;
    ~fake_system() { std::filesystem::remove_all(root); }

    void write(const std::string& file, const std::string& text) const {
        const std::filesystem::path path = std::filesystem::path(root) / file;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text << '\n';
    }
    void siblings(int cpu, const std::string& list) const {
        write("devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", list);
    }
    void capacity(int cpu, int value) const {
        write("devices/system/cpu/cpu" + std::to_string(cpu) + "/cpu_capacity", std::to_string(value));
    }
    std::size_t workers(const std::vector<int>& allowed) const {
        return tern::worker_count(tern::read_topology(allowed, root));
    }

    std::string root;
};

std::vector<int> first(int n) {
    std::vector<int> ids(static_cast<std::size_t>(n));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
}

} // namespace

TEST_CASE("device/topology: 8 performance and 12 efficiency cores give 8 workers") {
    const fake_system system;
    for (int i = 0; i < 16; ++i) system.siblings(i, std::to_string(i / 2 * 2) + "-" + std::to_string(i / 2 * 2 + 1));
    for (int i = 16; i < 28; ++i) system.siblings(i, std::to_string(i));
    system.write("devices/cpu_core/cpus", "0-15");
    system.write("devices/cpu_atom/cpus", "16-27");
    // One core is chosen for its peak clock.
    for (int i = 0; i < 28; ++i) system.capacity(i, i == 4 ? 1024 : i < 16 ? 1009 : 620);
    CHECK(system.workers(first(28)) == 8);
    CHECK(system.workers({16, 17, 18}) == 3); // those alone are allowed
    CHECK(system.workers({0, 1, 20, 21}) == 1);
}

TEST_CASE("device/topology: 8 cores with 16 threads give 8 workers") {
    const fake_system system;
    for (int i = 0; i < 16; ++i) system.siblings(i, std::to_string(i % 8) + "," + std::to_string(i % 8 + 8));
    CHECK(system.workers(first(16)) == 8);
}

TEST_CASE("device/topology: a cpuset of 2 gives 2 workers, and 1 where they are threads of one core") {
    const fake_system system;
    for (int i = 0; i < 16; ++i) system.siblings(i, std::to_string(i % 8) + "," + std::to_string(i % 8 + 8));
    CHECK(system.workers({3, 5}) == 2);
    CHECK(system.workers({11, 13}) == 2);
    CHECK(system.workers({3, 11}) == 1);
}

TEST_CASE("device/topology: a quota of 1.5 processors gives 2 workers") {
    const fake_system system;
    system.write("fs/cgroup/cpu.max", "150000 100000");
    CHECK(tern::read_topology({0}, system.root).quota == 1.5);
    CHECK(system.workers(first(8)) == 2);
    CHECK(system.workers({0}) == 1);
    system.write("fs/cgroup/cpu.max", "200000 100000");
    CHECK(system.workers(first(8)) == 2);
    system.write("fs/cgroup/cpu.max", "10000 100000");
    CHECK(system.workers(first(8)) == 1);
    system.write("fs/cgroup/cpu.max", "max 100000");
    CHECK(system.workers(first(8)) == 8);
    system.write("fs/cgroup/cpu.max", "1e300 1");
    CHECK(system.workers(first(8)) == 8);
    system.write("fs/cgroup/cpu.max", "100000 0");
    CHECK(system.workers(first(8)) == 8);
}

TEST_CASE("device/topology: capacities tell fast cores from slow ones, and not among the fast") {
    const fake_system system;
    for (int i = 0; i < 8; ++i) system.capacity(i, i < 4 ? 280 : i < 7 ? 870 : 1024);
    CHECK(system.workers(first(8)) == 4);
    CHECK(system.workers(first(4)) == 4);
}

TEST_CASE("device/topology: what cannot be read is one core for each processor") {
    const fake_system system;
    CHECK(system.workers(first(5)) == 5);
    CHECK(system.workers({}) == 1);
    system.siblings(0, "no list");
    system.siblings(1, "5-2");
    system.siblings(2, "99999999999999999999");
    system.siblings(3, "");
    CHECK(system.workers(first(5)) == 5);
}

TEST_CASE("device/topology: lists of processors") {
    using tern::detail::parse_cpu_list;
    CHECK(parse_cpu_list("0-3,8,10-11") == std::vector<int>{0, 1, 2, 3, 8, 10, 11});
    CHECK(parse_cpu_list("7") == std::vector<int>{7});
    CHECK(parse_cpu_list("").empty());
    CHECK(parse_cpu_list("-3").empty());
    CHECK(parse_cpu_list("1,x") == std::vector<int>{1});
    CHECK(parse_cpu_list("1-").empty());
    CHECK(parse_cpu_list("0-999999999").empty());
}

TEST_CASE("device/topology: this process has workers, no more than processors that it may run on") {
    const std::vector<int> allowed = tern::allowed_cpus();
    CHECK(!allowed.empty());
    CHECK(tern::usable_workers() >= 1);
    CHECK(tern::usable_workers() <= allowed.size());
}
