// A decoder behind one interface, whatever its architecture: for programs that open any model file.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <tern/model/gemma3.hpp>
#include <tern/model/llama.hpp>
#include <tern/model/qwen2.hpp>
#include <tern/model/qwen3.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/op/null_cache.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/plan/graph.hpp>
#include <tern/plan/recorder.hpp>

namespace tern {

/// What a decoder has: a configuration and a forward pass over any cache.
template <class D>
concept decoder_model = requires(const D& d, context& ctx, const batch& b, null_cache& cache) {
    { d.config() } -> std::convertible_to<const decoder_config&>;
    { d.forward(ctx, b, cache) } -> std::same_as<task<activation>>;
};

/// The run-time twin of decoder_model, over the caches that tern brings.
class decoder {
public:
    decoder() = default;
    decoder(const decoder&) = delete;
    decoder& operator=(const decoder&) = delete;
    virtual ~decoder() = default;

    virtual const decoder_config& config() const noexcept = 0;
    /// The logits [b.outputs.size(), vocabulary]; see decoder_frame::forward.
    virtual task<activation> forward(context& ctx, const batch& b, contiguous_cache& cache) const = 0;
    virtual task<activation> forward(context& ctx, const batch& b, paged_cache& cache) const = 0;
    virtual task<activation> forward(context& ctx, const batch& b, null_cache& cache) const = 0;
};

/// Puts a decoder behind the interface.
template <decoder_model D>
class decoder_of final : public decoder {
public:
    explicit decoder_of(D inner) : inner_(std::move(inner)) {}

    const decoder_config& config() const noexcept override { return inner_.config(); }
    task<activation> forward(context& ctx, const batch& b, contiguous_cache& cache) const override {
        return inner_.forward(ctx, b, cache);
    }
    task<activation> forward(context& ctx, const batch& b, paged_cache& cache) const override {
        return inner_.forward(ctx, b, cache);
    }
    task<activation> forward(context& ctx, const batch& b, null_cache& cache) const override {
        return inner_.forward(ctx, b, cache);
    }

private:
    D inner_;
};

/// The decoder that a GGUF file's "general.architecture" names. No weight is read. Throws unsupported_error with the
/// known names for another architecture, and what read_config and weights throw.
///
///     std::unique_ptr<tern::decoder> model = tern::open_decoder(file, store);
inline std::unique_ptr<decoder> open_decoder(const checkpoint& file, residency_store& store) {
    decoder_config config = read_config(file);
    weights<any_weight> from(file, store);
    const std::string name = config.architecture;
    const auto make = [&]<class D>(std::type_identity<D>) -> std::unique_ptr<decoder> {
        return std::make_unique<decoder_of<D>>(D(from, std::move(config)));
    };
    if (name == "llama") return make(std::type_identity<llama<>>{});
    if (name == "qwen2") return make(std::type_identity<qwen2<>>{});
    if (name == "qwen3" || name == "qwen3moe") return make(std::type_identity<qwen3<>>{});
    if (name == "gemma3") return make(std::type_identity<gemma3<>>{});
    throw unsupported_error("there is no decoder for the architecture \"" + name +
                                "\": known are llama, qwen2, qwen3, qwen3moe and gemma3",
                            {.path = file.path()});
}

/// The graph of a decoder: what it does with `tokens` tokens at once, found by running it without data.
///
///     const tern::graph g = tern::record(*model, loop, cpu, 64);
template <class D>
graph record(const D& model, run_loop& home, device& host, std::size_t tokens) {
    recorder into;
    context ctx(home, host, into);
    batch b;
    for (std::size_t i = 0; i < tokens; ++i) b.add(0, i, 0, i + 1 == tokens);
    null_cache none;
    home.run(model.forward(ctx, b, none));
    return std::move(into).finish(ctx.recorded_peak());
}

} // namespace tern
