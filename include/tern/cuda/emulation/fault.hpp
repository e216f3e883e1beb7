// What the kernel emulation reports: a fault of a kernel, or of the streams that run it.
#pragma once

#include <string>
#include <string_view>

#include <tern/base/error.hpp>

namespace tern::cuda::emulation {

/// What is wrong. A test asks for the kind; the sentence says where.
enum class fault_kind {
    order,             ///< the result depends on the order of threads or blocks: a barrier is missing, or an atomic
    uninitialised,     ///< the result depends on memory that nobody wrote
    unwritten,         ///< memory that nobody wrote is copied to the host
    shared_overflow,   ///< outside a shared array, or more shared memory than a block has
    global_overflow,   ///< written past an allocation of the device
    divergent_barrier, ///< threads of a block wait at different barriers, or one has returned
    divergent_warp,    ///< lanes of a mask do not meet at one warp operation
    mask,              ///< a lane calls a warp operation whose mask does not name it
    misuse,            ///< an argument that the hardware does not take
    staging_reused,    ///< the host wrote to the source of a copy that had not yet read it
    streams,           ///< the result depends on the order of streams: an event or a synchronisation is missing
};

constexpr std::string_view name_of(fault_kind kind) noexcept {
    switch (kind) {
    case fault_kind::order: return "order of threads";
    case fault_kind::uninitialised: return "uninitialised memory";
    case fault_kind::unwritten: return "unwritten output";
    case fault_kind::shared_overflow: return "shared memory overflow";
    case fault_kind::global_overflow: return "device memory overflow";
    case fault_kind::divergent_barrier: return "divergent barrier";
    case fault_kind::divergent_warp: return "divergent warp";
    case fault_kind::mask: return "mask";
    case fault_kind::misuse: return "misuse";
    case fault_kind::staging_reused: return "staging reused";
    case fault_kind::streams: return "order of streams";
    }
    return "fault";
}

/// Thrown by the call that ran the kernel: often not the launch but the synchronisation after it.
///
///     CHECK_THROWS_AS(cudaDeviceSynchronize(), tern::cuda::emulation::fault);
class fault : public error {
public:
    fault(fault_kind kind, std::string_view what)
        : error(std::string(name_of(kind)) + ": " + std::string(what)), kind_(kind) {}

    fault_kind kind() const noexcept { return kind_; }

private:
    fault_kind kind_;
};

} // namespace tern::cuda::emulation
