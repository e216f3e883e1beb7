// The context of a run: where coroutines go on, which devices there are, where activations come from, and whether the
// decoder computes or is being recorded.
#pragma once

#include <coroutine>
#include <cstddef>
#include <deque>
#include <stop_token>
#include <utility>

#include <tern/async/run_loop.hpp>
#include <tern/async/task.hpp>
#include <tern/base/error.hpp>
#include <tern/device/device.hpp>
#include <tern/format/format.hpp>
#include <tern/kernel/slot.hpp>
#include <tern/op/activation.hpp>
#include <tern/op/activation_policy.hpp>
#include <tern/op/batch.hpp>
#include <tern/op/misses.hpp>
#include <tern/op/scratch_pool.hpp>
#include <tern/plan/recorder.hpp>

namespace tern {

/// An activation as one device reads it: a reference to it, or a copy that this owns.
class operand {
public:
    explicit operand(const activation& in_place) noexcept : seen_(&in_place) {}
    explicit operand(activation&& copied) noexcept : copy_(std::move(copied)) {}
    operand(operand&&) noexcept = default;

    const float* data() const noexcept { return (seen_ != nullptr ? *seen_ : copy_).data(); }
    /// The copy; empty where there is none.
    activation keep() && noexcept { return std::move(copy_); }

private:
    const activation* seen_ = nullptr;
    activation copy_{};
};

/// What mixtures of experts needed so far.
struct expert_counters {
    std::uint64_t chosen = 0;  ///< experts, each once for a call however many tokens chose it
    bytes active{};            ///< bytes of their weights
    std::uint64_t on_host = 0; ///< of the chosen, computed on the host because they were missing on their device
};

/// Given to every operator. One decoder run at a time; all its coroutines go on in one loop. The loop and the devices
/// must outlive it.
///
/// Its coroutines, like the operators that read no weight, are templates for one reason: compilers emit code for every
/// inline coroutine that is no template, used or not, in each file that includes it.
class context {
public:
    /// `host` computes what no placement claims.
    context(run_loop& home, device& host) : home_(home), host_(host) {}
    /// A recording context: operators note their call and give back shapes.
    context(run_loop& home, device& host, recorder& into) : home_(home), host_(host), recorder_(&into) {}
    context(const context&) = delete;
    context& operator=(const context&) = delete;

    run_loop& home() const noexcept { return home_; }
    device& host() const noexcept { return host_; }
    /// Null while computing.
    recorder* recording() const noexcept { return recorder_; }
    bytes recorded_peak() const noexcept { return meter_.peak(); }

    /// How experts that are missing are treated, and the clock and links that this is measured with; neither is needed
    /// for on_miss::fetch and on_miss::compute.
    void treat_misses(miss_policy how) {
        misses_ = how;
        time_ = nullptr;
    }
    template <class Clock> void treat_misses(miss_policy how, const Clock* time) {
        misses_ = how;
        time_ = time;
        now_ = [](const void* clock) { return static_cast<const Clock*>(clock)->now(); };
    }
    miss_policy& misses() noexcept { return misses_; }
    expert_counters& expert_use() noexcept { return expert_use_; }
    /// Whether there is a clock to measure with, and its time.
    bool measures() const noexcept { return time_ != nullptr; }
    seconds now() const { return time_ != nullptr ? now_(time_) : seconds{}; }

    /// How activations enter products from now on; f32 at first. A run and its recording need the same.
    void compute_with(activation_policy activations) noexcept { activations_ = activations; }
    activation_policy activations() const noexcept { return activations_; }

    /// Checked between operators: stopping a run makes the next operator throw stopped_error.
    void stop_with(std::stop_token token) { stop_ = std::move(token); }
    void throw_if_stopped() const {
        if (stop_.stop_requested()) throw stopped_error();
    }

    /// The pool of a device's activations.
    scratch_pool& pool(device& on) {
        arena* const memory = &on.memory();
        for (scratch_pool& pool : pools_)
            if (&pool.memory() == memory) return pool;
        return pools_.emplace_back(*memory);
    }

    /// What pools of activations keep for reuse goes back to the memories.
    void trim_pools() noexcept {
        for (scratch_pool& pool : pools_) pool.trim();
    }

    /// A new activation on a device; a shape alone while recording.
    activation make(device& on, std::size_t rows, std::size_t cols) {
        if (recorder_ != nullptr) return {meter_, rows, cols};
        return {on, pool(on), rows, cols};
    }

    /// An operand that `on` reads: `x` itself where it lies there, else a copy that came over the links. `x` must
    /// outlive the result.
    template <class Operand = operand> task<Operand> reach(const activation& x, device& on) {
        device* const from = x.on();
        if (from == nullptr) throw shape_error("an activation without data was used; pass one that was computed");
        if (on.reads(from->memory().where())) co_return operand(x);
        activation here;
        if (!host_.reads(from->memory().where())) {
            here = make(host_, x.rows(), x.cols());
            co_await copy(*from, home_, direction::to_host, bytes_of(here), bytes_of(x), x.size(), lane::activations);
            if (on.reads(host_.memory().where())) co_return operand(std::move(here));
        }
        const activation& source = here.on() != nullptr ? here : x;
        activation there = make(on, x.rows(), x.cols());
        co_await copy(on, home_, direction::to_device, bytes_of(there), bytes_of(source), x.size(), lane::activations);
        co_return operand(std::move(there));
    }

    /// The activation itself moved to a device that reads it; nothing happens where it lies there.
    template <class Activation = activation> task<Activation> bring(activation x, device& on) {
        if (x.on() != nullptr && on.reads(x.on()->memory().where())) co_return x;
        operand moved = co_await reach(x, on);
        co_return std::move(moved).keep();
    }

    /// Awaitable: runs an operator's kernel on a device. The pieces that workers share are at least `piece` items, so
    /// that small work is not split.
    template <kernel::kernel_operator Op> auto launch(device& on, typename Op::args args, std::size_t piece = 1) {
        return launch_slot(on, kernel::slot<Op>, nullptr, args, piece);
    }

    /// The same for an operator that reads a weight: the kernel is that of the weight's format.
    template <kernel::kernel_operator Op, weight_tensor Weight>
    auto launch(device& on, const Weight& weight, typename Op::args args, std::size_t piece = 1) {
        auto& slot = weight.visit([]<format F>() -> kernel::kernel_slot<Op>& { return kernel::slot<Op, F>; });
        return launch_slot(on, slot, &Weight::formats_type::infos[weight.format_index()], args, piece);
    }

    /// The same with the kernel of a slot that was found otherwise; `stored` is the weight's format, null for none.
    template <kernel::kernel_operator Op>
    auto launch_slot(device& on, const kernel::kernel_slot<Op>& slot, const format_info* stored,
                     const typename Op::args& args, std::size_t piece) {
        if (on.kernels() != kernel_kind::host)
            throw unsupported_error("there is no kernel for " + std::string(Op::name) + " on " +
                                    std::string(on.name()) + ": place its weights elsewhere");
        throw_if_stopped();
        const std::size_t items = Op::items(args);
        const std::size_t share = (items + 4 * on.workers() - 1) / (4 * on.workers());
        std::size_t grain = share > piece ? share : piece;
        if constexpr (requires { Op::together; }) grain = (grain + Op::together - 1) / Op::together * Op::together;
        return tern::launch(on, home_, items, grain, kernel_call<Op>{&slot.get(), stored, args});
    }

private:
    template <kernel::kernel_operator Op> struct kernel_call {
        const kernel::kernel_entry<Op>* entry;
        const format_info* stored; // of the weight; null where there is none
        typename Op::args args;

        void operator()(std::size_t begin, std::size_t end) const { entry->run(args, begin, end); }
        call_work describe() const {
            const kernel::amount n = kernel::work_of<Op>(args);
            call_work w{.op = Op::name, .tokens = n.tokens, .operations = n.operations, .other_bytes = n.other_bytes};
            w.args = &args;
            w.weight = n.weight;
            if (stored == nullptr) return w;
            w.format = stored->name;
            w.weight_bytes = n.weights * double(stored->block_bytes) / double(stored->block_size);
            return w;
        }
    };

    static std::byte* bytes_of(const activation& x) { return reinterpret_cast<std::byte*>(x.data()); }

    run_loop& home_;
    device& host_;
    recorder* recorder_ = nullptr;
    activation_policy activations_ = activation_policy::f32;
    activation_meter meter_{};
    std::stop_token stop_{};
    miss_policy misses_{};
    expert_counters expert_use_{};
    const void* time_ = nullptr; // a clock, or null
    seconds (*now_)(const void*) = nullptr;
    std::deque<scratch_pool> pools_; // addresses stay: activations refer to them
};

namespace detail {

/// Items of `bytes_each` that together are worth waking a worker for.
constexpr std::size_t worthwhile_piece(std::size_t bytes_each) {
    constexpr std::size_t worth = 32 * 1024;
    return bytes_each >= worth ? 1 : worth / (bytes_each == 0 ? 1 : bytes_each);
}

} // namespace detail

} // namespace tern
