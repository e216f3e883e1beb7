// The one way to launch a kernel, on a device or in the emulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/cuda/kernel.hpp>

namespace tern::cuda {

/// Where and how wide a kernel runs.
struct grid {
    dim3 blocks;
    dim3 threads;
    std::size_t shared = 0; ///< bytes of dynamic shared memory of a block
    cudaStream_t stream = nullptr;
    std::string_view name = "kernel"; ///< for messages
};

namespace detail {

inline void check_grid(const grid& g) {
    const std::uint64_t threads = std::uint64_t{g.threads.x} * g.threads.y * g.threads.z;
    if (threads == 0 || threads > 1024 || g.threads.z > 64)
        throw shape_error(std::string(g.name) + ": a block of " + std::to_string(threads) +
                          " threads cannot be launched: 1 to 1024");
    const bool empty = g.blocks.x == 0 || g.blocks.y == 0 || g.blocks.z == 0;
    if (empty || g.blocks.x > 0x7FFFFFFFu || g.blocks.y > 65535 || g.blocks.z > 65535)
        throw shape_error(std::string(g.name) + ": a grid of " + std::to_string(g.blocks.x) + " x " +
                          std::to_string(g.blocks.y) + " x " + std::to_string(g.blocks.z) +
                          " blocks cannot be launched");
}

} // namespace detail

/// Blocks of `each` that hold `count`; throws shape_error where a grid has no room for them.
inline unsigned blocks_for(std::uint64_t count, std::uint64_t each) {
    const std::uint64_t blocks = count / each + (count % each != 0);
    if (blocks > 0x7FFFFFFFu) throw shape_error(std::to_string(blocks) + " blocks are too many for one launch");
    return static_cast<unsigned>(blocks);
}

/// Puts a kernel into a stream; returns before it has run. Arguments are converted to what the kernel takes, and
/// copied. Throws shape_error for a grid that no device takes, tern::error where the launch fails.
///
///     tern::cuda::launch({.blocks = 8, .threads = 256, .name = "scale"}, scale<float>, data, count, 2.0f);
template <class... Parameters, class... Arguments>
void launch(const grid& g, void (*kernel)(Parameters...), Arguments&&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                  "a kernel is launched with as many arguments as it takes");
    static_assert(!(std::is_reference_v<Parameters> || ...), "a kernel takes its arguments by value");
    detail::check_grid(g);
#if defined(__CUDACC__)
    cudaError_t status = cudaSuccess;
    if (g.shared > 48 * 1024)
        status = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(g.shared));
    if (status == cudaSuccess) {
        kernel<<<g.blocks, g.threads, g.shared, g.stream>>>(static_cast<Parameters>(arguments)...);
        status = cudaGetLastError();
    }
    if (status != cudaSuccess) throw error("launching " + std::string(g.name) + ": " + cudaGetErrorString(status));
#else
    using values = std::tuple<Parameters...>;
    auto run = [kernel, packed = values(static_cast<Parameters>(arguments)...), blocks = g.blocks, threads = g.threads,
                shared = g.shared, name = std::string(g.name)]() mutable {
        auto call = std::pair(kernel, &packed);
        using call_type = decltype(call);
        const auto body = [](void* at) {
            const auto& [f, a] = *static_cast<call_type*>(at);
            std::apply(f, *a); // each thread gets copies of its own
        };
        emulation::device::get().run_kernel({name, blocks, threads, shared, body, &call});
    };
    emulation::device& d = emulation::device::get();
    const auto lock = d.lock();
    d.put(g.stream, std::move(run));
#endif
}

} // namespace tern::cuda
