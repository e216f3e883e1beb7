// The kernel table: one slot for each (operator, format, kind of device). A slot starts with the plain reference and
// gets faster when somebody puts a better function in.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <string_view>

#include <tern/base/config.hpp>

namespace tern::kernel {

/// A kind of device that kernels are written for: those that run on the host's processor, on its memory (the cpu device
/// and the emulated accelerator).
struct on_host {
    static constexpr std::string_view name = "host";
};
/// CUDA kernels.
struct on_cuda {
    static constexpr std::string_view name = "cuda";
};

/// A format for operators whose operands are plain f32 activations.
struct no_format {
    static constexpr std::string_view name = "f32";
};

/// Arithmetic of one operator, as a struct: its arguments, its name, how many independent items its work has, and a
/// plain reference. A kernel computes the items [begin, end); each item's result depends on that item alone, so the
/// answer does not depend on how the items are split over workers.
///
///     struct twice {
///         struct args { const float* x; float* y; std::size_t n; };
///         static constexpr std::string_view name = "twice";
///         static std::size_t items(const args& a) { return a.n; }
///         template <class Format> static void reference(const args& a, std::size_t begin, std::size_t end) {
///             for (std::size_t i = begin; i < end; ++i) a.y[i] = 2 * a.x[i];
///         }
///     };
template <class Op>
concept kernel_operator = requires(const typename Op::args& args) {
    { Op::name } -> std::convertible_to<std::string_view>;
    { Op::items(args) } -> std::convertible_to<std::size_t>;
};

/// How much work one call of an operator is. Bytes of the weight follow from its numbers and its format.
struct amount {
    std::size_t tokens = 0;
    double operations = 0;             ///< a multiplication and an addition are two
    double weights = 0;                ///< numbers of the weight that are read
    double other_bytes = 0;            ///< of activations, keys and values, read or written
    const std::byte* weight = nullptr; ///< its first block
};

/// The amount of work of one call: what `Op::work(args)` says, and nothing where an operator does not say it.
template <kernel_operator Op> amount work_of(const typename Op::args& args) {
    if constexpr (requires {
                      { Op::work(args) } -> std::same_as<amount>;
                  })
        return Op::work(args);
    else
        return {};
}

/// The signature of every host kernel.
template <kernel_operator Op>
using host_kernel = void (*)(const typename Op::args&, std::size_t begin, std::size_t end);

/// A function and the name of the path it takes ("reference", "avx2", ...).
template <kernel_operator Op> struct kernel_entry {
    host_kernel<Op> run;
    const char* path;
};

/// Where the function for one (operator, format, device) is kept. Reading is one relaxed load; setting is meant for
/// start-up, but safe at any time.
template <kernel_operator Op> class kernel_slot {
public:
    constexpr explicit kernel_slot(const kernel_entry<Op>* first) noexcept : entry_(first) {}

    const kernel_entry<Op>& get() const noexcept { return *entry_.load(std::memory_order_acquire); }

    /// Puts another function in; `entry` must live as long as the program.
    void set(const kernel_entry<Op>& entry) noexcept { entry_.store(&entry, std::memory_order_release); }

private:
    std::atomic<const kernel_entry<Op>*> entry_;
};

namespace detail {
template <kernel_operator Op, class Format>
inline constexpr kernel_entry<Op> reference_entry{&Op::template reference<Format>, "reference"};
} // namespace detail

/// The table itself. `slot<linear, q4_0>.get().run(args, 0, rows)` runs the best kernel known for it.
///
///     constexpr tern::kernel::kernel_entry<tern::kernel::linear> mine{&my_function, "mine"};
///     tern::kernel::slot<tern::kernel::linear, my_format>.set(mine);
template <kernel_operator Op, class Format = no_format, class Device = on_host>
inline constinit kernel_slot<Op> slot{&detail::reference_entry<Op, Format>};

} // namespace tern::kernel
