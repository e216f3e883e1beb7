// A decoder behind one interface, whatever its architecture: for programs that open any model file.
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>

#include <tern/model/config.hpp>
#include <tern/op/any_cache.hpp>
#include <tern/op/context.hpp>
#include <tern/op/null_cache.hpp>
#include <tern/plan/graph.hpp>
#include <tern/plan/recorder.hpp>

namespace tern {

/// What a decoder has: a configuration and a forward pass over any cache.
template <class D>
concept decoder_model = requires(const D& d, context& ctx, const batch& b, null_cache& cache) {
    { d.config() } -> std::convertible_to<const decoder_config&>;
    { d.forward(ctx, b, cache) } -> std::same_as<task<activation>>;
};

/// The run-time twin of decoder_model. It is compiled once for all caches.
class decoder {
public:
    decoder() = default;
    decoder(const decoder&) = delete;
    decoder& operator=(const decoder&) = delete;
    virtual ~decoder() = default;

    virtual const decoder_config& config() const noexcept = 0;
    /// The logits [b.outputs.size(), vocabulary]; see decoder_frame::forward. Arguments must live until it completes.
    virtual task<activation> forward(context& ctx, const batch& b, any_cache& cache) const = 0;

    template <kv_cache Cache> task<activation> forward(context& ctx, const batch& b, Cache& cache) const {
        any_cache any(cache);
        co_return co_await forward(ctx, b, any);
    }
};

/// Puts a decoder behind the interface.
template <decoder_model D> class decoder_of final : public decoder {
public:
    explicit decoder_of(D inner) : inner_(std::move(inner)) {}

    const decoder_config& config() const noexcept override { return inner_.config(); }
    task<activation> forward(context& ctx, const batch& b, any_cache& cache) const override {
        return inner_.forward(ctx, b, cache);
    }

private:
    D inner_;
};

/// The graph of a decoder: what it does with `tokens` tokens at once, found by running it without data. `activations`
/// is the policy of the runs to come: activations of 8 bits need room beside those of 32.
///
///     const tern::graph g = tern::record(*model, loop, cpu, 64);
template <class D>
graph record(const D& model, run_loop& home, device& host, std::size_t tokens,
             activation_policy activations = activation_policy::f32) {
    recorder into;
    context ctx(home, host, into);
    ctx.compute_with(activations);
    batch b;
    for (std::size_t i = 0; i < tokens; ++i) b.add(0, i, 0, i + 1 == tokens);
    null_cache none;
    home.run(model.forward(ctx, b, none));
    return std::move(into).finish(ctx.recorded_peak());
}

} // namespace tern
