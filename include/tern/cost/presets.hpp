// Machines that many people have, from public data sheets, to plan for without owning them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include <tern/cost/machine.hpp>

namespace tern {

namespace detail {

inline constexpr std::uint64_t gib = std::uint64_t{1} << 30;

/// What the presets of a host differ in.
struct host_sheet {
    const char* name;
    double f32;                 ///< operations a second of all cores at base clock
    std::optional<double> int8; ///< nothing where the instruction set has no dot product of bytes
    double memory;              ///< bytes a second of all channels
    std::uint64_t ram;          ///< bytes
    double disk;                ///< bytes a second, read in order
};
struct accelerator_sheet {
    const char* name;
    double f32, f16, int8;
    double memory;
    std::uint64_t vram;
    double pcie; ///< bytes a second, each way
};

// No data sheet gives what follows. Estimates, to be replaced by measurements:
inline constexpr seconds team_launch{2e-6}; // waking and joining a team of threads
// Between 1 us, where the host runs ahead of the device, and 5 us, where it does not: the launch of a small kernel.
inline constexpr seconds kernel_launch{3e-6};
inline constexpr seconds device_sync{10e-6}; // waiting on a stream and going on
// Published as 5 to 7 us for one small asynchronous copy (arXiv 2602.21548, section 5.2).
inline constexpr seconds copy_latency{6e-6};
inline constexpr seconds disk_latency{80e-6};          // of one read of a flash disk at depth 1
inline constexpr std::uint64_t system_share = 2 * gib; // of RAM, for the system and programs
inline constexpr std::uint64_t driver_share = gib / 2; // of VRAM, for the driver's context and a display

template <class = void> machine host_machine(const char* name, const host_sheet& s) {
    const location ram{tier_of<pageable>, 0, 0}, locked{tier_of<pinned>, 0, 0}, file{tier_of<mapped>, 0, 0},
        disk{tier_of<direct>, 0, 0};
    machine m;
    m.name = name;
    const bytes_per_second dram{s.memory};
    m.memories.push_back({ram, {s.ram}, {system_share}, false, bytes{s.ram}, dram, "dram"});
    m.memories.push_back({locked, {s.ram / 2}, {}, true, bytes{s.ram}, dram, "dram"});
    m.memories.push_back({file, unlimited, {}, false, bytes{s.ram}, dram, "dram"});
    m.memories.push_back({disk, unlimited, {}, false, std::nullopt, bytes_per_second{s.disk}, "disk"});
    // Kernels for processors without arithmetic in f16 decode to f32.
    m.processors.push_back(
        {s.name, processor_kind::cpu, 0, {ram, locked, file}, {s.f32, s.f32, s.int8}, team_launch, seconds{}});
    for (const location& to : {ram, locked})
        m.links.push_back({disk, to, bytes_per_second{s.disk}, disk_latency, "disk"});
    return m;
}

template <class = void> machine with_accelerator(machine m, const accelerator_sheet& s) {
    const location vram0{tier_of<vram>, 0, 0};
    m.memories.push_back({vram0, {s.vram}, {driver_share}, false, bytes{s.vram}, bytes_per_second{s.memory}, {}});
    m.processors.push_back(
        {s.name, processor_kind::accelerator, 0, {vram0}, {s.f32, s.f16, s.int8}, kernel_launch, device_sync});
    const bytes_per_second pcie{s.pcie};
    for (const tier_info& host : {tier_of<pinned>, tier_of<pageable>, tier_of<mapped>})
        m.links.push_back({{host, 0, 0}, vram0, pcie, copy_latency, "pcie to device"});
    for (const tier_info& host : {tier_of<pinned>, tier_of<pageable>})
        m.links.push_back({vram0, {host, 0, 0}, pcie, copy_latency, "pcie to host"});
    return m;
}

// PCI Express base specifications 4.0 and 5.0: 16 and 32 GT/s a lane, 16 lanes, 128 of 130 bits are data.
inline constexpr double pcie4_x16 = 16e9 * 16 * 128 / 130 / 8; // 31.5 GB/s
inline constexpr double pcie5_x16 = 32e9 * 16 * 128 / 130 / 8; // 63 GB/s

// Samsung's data sheets: sequential reads of the 990 PRO, the PM9A3 (U.2) and the 870 EVO (SATA).
inline constexpr double nvme_desktop = 7.45e9;
inline constexpr double nvme_server = 6.8e9;
inline constexpr double sata_ssd = 0.56e9;

} // namespace detail

/// Each function gives a machine whose budgets are what is built in, less a share for the system and the driver that is
/// reserved. Every figure is a peak; `efficiency` says how much of it programs reach.
namespace machines {

/// The laptop of the ATSInfer paper (arXiv 2607.10183): RTX 3060 Laptop 6 GB, Core i7-11800H, 32 GB of DDR4, PCIe 4
/// x16.
template <class = void> machine rtx3060_laptop() {
    return detail::with_accelerator(
        detail::host_machine("rtx3060_laptop",
                             {.name = "Core i7-11800H",
                              // Intel's product page: 8 cores, 2.3 GHz; one 512-bit multiply-add a cycle and core
                              .f32 = 8 * 2.3e9 * 16 * 2,
                              .int8 = 8 * 2.3e9 * 64 * 2, // VNNI
                              .memory = 51.2e9,           // two channels of DDR4-3200 (same page)
                              .ram = 32 * detail::gib,
                              .disk = detail::nvme_desktop}), // the paper names no disk: assumed
        {.name = "RTX 3060 Laptop",
         // NVIDIA's product page: 3840 cores, boost from 1.283 to 1.703 GHz by the laptop's power; 1.425 GHz is that of
         // the 80 W kind
         .f32 = 3840 * 2 * 1.425e9,
         // GA102 white paper, table of the architecture: a tensor core gives 128 f16 multiply-adds a cycle, half of
         // that when it sums in f32; 120 of them here, and twice as much in int8
         .f16 = 120 * 64 * 2 * 1.425e9,
         .int8 = 120 * 256 * 2 * 1.425e9,
         .memory = 336e9, // 192 bits of GDDR6 at 14 Gbit/s (same page)
         .vram = 6 * detail::gib,
         .pcie = detail::pcie4_x16});
}

/// The desktop of the ATSInfer paper with 64 GB: RTX 4090 24 GB. Its processor and disk are assumed.
template <class = void> machine rtx4090_64g() {
    return detail::with_accelerator(
        detail::host_machine("rtx4090_64g", {.name = "Core i9-13900K",
                                             // Intel's product page: 8 performance cores, 3.0 GHz; two 256-bit
                                             // multiply-adds a cycle and core
                                             .f32 = 8 * 3.0e9 * 16 * 2,
                                             .int8 = 8 * 3.0e9 * 64 * 2, // AVX-VNNI
                                             .memory = 89.6e9,           // two channels of DDR5-5600 (same page)
                                             .ram = 64 * detail::gib,
                                             .disk = detail::nvme_desktop}),
        // NVIDIA Ada architecture white paper, appendix A: dense, sums in f32
        {.name = "RTX 4090",
         .f32 = 82.6e12,
         .f16 = 165.2e12,
         .int8 = 660.6e12,
         .memory = 1008e9,
         .vram = 24 * detail::gib,
         .pcie = detail::pcie4_x16});
}

/// A workstation: RTX 6000 Ada 48 GB and one NVMe disk. Its processor is assumed: Threadripper PRO 5975WX, 256 GB.
template <class = void> machine rtx6000_ada_nvme() {
    return detail::with_accelerator(
        detail::host_machine("rtx6000_ada_nvme", {.name = "Threadripper PRO 5975WX",
                                                  // AMD's product page: 32 cores, 3.6 GHz; two 256-bit multiply-adds a
                                                  // cycle and core, no dot product of bytes
                                                  .f32 = 32 * 3.6e9 * 16 * 2,
                                                  .int8 = std::nullopt,
                                                  .memory = 204.8e9, // eight channels of DDR4-3200 (same page)
                                                  .ram = 256 * detail::gib,
                                                  .disk = detail::nvme_desktop}),
        // NVIDIA RTX 6000 Ada data sheet: 91.1 TFLOPS, 1457 TFLOPS of sparse FP8, so 728.5 dense, and half that in f16
        {.name = "RTX 6000 Ada",
         .f32 = 91.1e12,
         .f16 = 364.2e12,
         .int8 = 728.5e12,
         .memory = 960e9,
         .vram = 48 * detail::gib,
         .pcie = detail::pcie4_x16});
}

} // namespace machines

namespace detail {

/// NVIDIA DGX H100 and H200 data sheets: two Xeon Platinum 8480C, 112 cores, 2 TB. Intel's page of the 8480+: 2.0 GHz,
/// two 512-bit multiply-adds, eight channels of DDR5-4800 each.
template <class = void> machine dgx_host(const char* name) {
    return host_machine(name, {.name = "2 x Xeon Platinum 8480C",
                               .f32 = 112 * 2.0e9 * 32 * 2,
                               .int8 = 112 * 2.0e9 * 128 * 2, // VNNI; its matrix unit is not counted
                               .memory = 2 * 8 * 38.4e9,
                               .ram = 2048 * gib,
                               .disk = nvme_server}); // one of its disks: assumed
}

/// NVIDIA H100 and H200 data sheets, SXM: the tensor figures there are sparse, half of that dense.
template <class = void> machine hopper(machine host, const char* name, double memory, std::uint64_t vram) {
    return with_accelerator(std::move(host), {.name = name,
                                              .f32 = 67e12,
                                              .f16 = 1979e12 / 2,
                                              .int8 = 3958e12 / 2,
                                              .memory = memory,
                                              .vram = vram,
                                              .pcie = pcie5_x16});
}

} // namespace detail

namespace machines {

/// One H100 SXM of a DGX H100: 80 GB, of which the system shows about 79 GiB; 3.35 TB/s.
template <class = void> machine h100() {
    return detail::hopper(detail::dgx_host("h100"), "H100 SXM", 3.35e12, 79 * detail::gib);
}

/// One H200 SXM of a DGX H200: 141 GB, of which the system shows about 139 GiB; 4.8 TB/s.
template <class = void> machine h200() {
    return detail::hopper(detail::dgx_host("h200"), "H200 SXM", 4.8e12, 139 * detail::gib);
}

/// Two cores and no accelerator. Intel's product page of the Core i3-7100U: 2.4 GHz, two 256-bit multiply-adds, two
/// channels of DDR4-2133. RAM of 8 GB and a SATA disk are assumed.
template <class = void> machine cpu2() {
    return detail::host_machine("cpu2", {.name = "Core i3-7100U",
                                         .f32 = 2 * 2.4e9 * 16 * 2,
                                         .int8 = std::nullopt,
                                         .memory = 34.1e9,
                                         .ram = 8 * detail::gib,
                                         .disk = detail::sata_ssd});
}

/// The preset of a name, or nothing.
template <class = void> std::optional<machine> named(std::string_view name) {
    if (name == "rtx3060_laptop") return rtx3060_laptop();
    if (name == "rtx4090_64g") return rtx4090_64g();
    if (name == "rtx6000_ada_nvme") return rtx6000_ada_nvme();
    if (name == "h100") return h100();
    if (name == "h200") return h200();
    if (name == "cpu2") return cpu2();
    return std::nullopt;
}

} // namespace machines

} // namespace tern
