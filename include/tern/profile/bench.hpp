// Runs one operator of a graph alone, with made-up numbers, as a decoder would: through the context, on the device and
// from leases of a store. What it measures holds launch, switch to the device and sync.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/format/formats.hpp>
#include <tern/kernel/rope_frequencies.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/op/attention.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/op/embed.hpp>
#include <tern/op/experts.hpp>
#include <tern/op/feed_forward.hpp>
#include <tern/op/linear.hpp>
#include <tern/op/rms_norm.hpp>
#include <tern/op/rope.hpp>
#include <tern/profile/calls.hpp>
#include <tern/profile/timing.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/prefetched.hpp>

namespace tern {

/// The type of the weights that are measured: that of the ready-made decoders.
using profiled_weight = tensor<all_formats, tiers<vram, pinned, pageable, mapped, direct>, prefetched<16>>;

/// What a graph does not say of its calls.
struct call_details {
    std::size_t heads = 1; ///< of attention
    std::size_t kv_heads = 1;
    std::size_t head_dim = 0; ///< of attention and rope; 0: the width of the call over its heads
    kernel::activation_kind act = kernel::activation_kind::silu;
};

namespace detail {

/// Bytes that decode to numbers in [-1, 1): kernels take longer for numbers that are none.
template <weight_tensor Weight> void fill_weights(std::size_t format, std::span<std::byte> into) {
    visit_format<typename Weight::formats_type>(format, [&]<class F>() {
        if constexpr (format_encodable<F>) {
            constexpr std::size_t size = sizeof(typename F::block), blocks = 64;
            std::vector<std::byte> some(blocks * size);
            float values[F::block_size];
            std::uint32_t state = 1;
            for (std::size_t b = 0; b < blocks; ++b) {
                for (float& v : values)
                    v = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
                F::encode(values, *reinterpret_cast<typename F::block*>(some.data() + b * size));
            }
            for (std::size_t at = 0; at < into.size(); at += some.size())
                std::memcpy(into.data() + at, some.data(), std::min(some.size(), into.size() - at));
        }
    });
}

/// Memory in the system's smallest pages, as files are mapped: in large ones, which the system may give to what a
/// program allocates, matrices are read faster.
class small_pages {
public:
    explicit small_pages(tern::bytes size) : size_(size.count) {
        void* const p = ::mmap(nullptr, mapped_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            throw budget_error("the system has no memory for weights that are measured", {.needed = size_});
        at_ = static_cast<std::byte*>(p);
        static_cast<void>(::madvise(p, mapped_size(), MADV_NOHUGEPAGE)); // unknown to some systems: then there are none
    }
    small_pages(const small_pages&) = delete;
    small_pages& operator=(const small_pages&) = delete;
    ~small_pages() { ::munmap(at_, mapped_size()); }

    std::span<std::byte> bytes() const noexcept { return {at_, static_cast<std::size_t>(size_)}; }

private:
    std::size_t mapped_size() const noexcept { return static_cast<std::size_t>(size_ == 0 ? 1 : size_); }

    std::uint64_t size_;
    std::byte* at_ = nullptr;
};

/// The weights of one kind of call, `copies` times, on a device.
template <weight_tensor Weight> class weight_ring {
public:
    /// `most` bytes in all, but at least one copy; a table or a matrix that alone is larger is cut to fewer rows.
    weight_ring(run_loop& home, device& host, device& on, const call_kind& k, bytes most)
        : staging_(unlimited), store_(home, staging_) {
        std::uint64_t each = 0;
        for (const call_weight& w : k.weights) each += size_of(w, w.rows);
        const bool divisible = k.op == "embed" || (k.op == "linear" && k.weights.size() == 1);
        if (divisible && each > most.count) {
            cut_ = std::max<std::size_t>(
                1, static_cast<std::size_t>(double(k.weights[0].rows) * double(most.count) / double(each)));
            each = size_of(k.weights[0], cut_);
        }
        const std::uint64_t copies = each == 0 ? 1 : std::clamp<std::uint64_t>(most.count / each, 1, 256);
        sets_.resize(copies);
        for (const call_weight& w : k.weights) add(home, host, on, w, cut_ != 0 ? cut_ : w.rows);
        bytes_ = {each};
    }

    const std::vector<Weight>& next() { return sets_[turn_++ % sets_.size()]; }
    /// Of one call; less than the graph's where rows were cut.
    bytes size() const noexcept { return bytes_; }
    bool is_cut() const noexcept { return cut_ != 0; }

private:
    static std::size_t index_of(std::string_view format) {
        const std::size_t i = Weight::formats_type::index_of_name(format);
        if (i == Weight::formats_type::size)
            throw unsupported_error("no operator can be measured in format " + std::string(format));
        return i;
    }
    static std::uint64_t size_of(const call_weight& w, std::size_t rows) {
        return visit_format<typename Weight::formats_type>(
            index_of(w.format), [&]<class F>() { return checked_mul<std::uint64_t>(row_bytes<F>(w.cols), rows); });
    }
    void add(run_loop& home, device& host, device& on, const call_weight& w, std::size_t rows) {
        const std::size_t format = index_of(w.format);
        const bytes size{size_of(w, rows)};
        for (std::vector<Weight>& set : sets_) {
            const std::span<std::byte> data = data_.emplace_back(size).bytes();
            fill_weights<Weight>(format, data);
            const slice_id id = store_.add("measured", {.memory = data.data()}, size);
            if (on.reads({tier_of<mapped>, 0, 0}))
                store_.assign(id, host);
            else
                home.run(store_.place(id, on, &Weight::transfer_type::move));
            set.emplace_back(store_, id, format, tensor_shape{rows, w.cols, 1}, "measured");
        }
    }

    heap_arena staging_;
    std::deque<small_pages> data_{};
    residency_store store_;
    std::vector<std::vector<Weight>> sets_{};
    std::size_t turn_ = 0;
    std::size_t cut_ = 0;
    bytes bytes_{};
};

/// The layers of a cache that holds `context` tokens of one sequence, and room for `tokens` more.
struct filled_cache {
    contiguous_cache cache;
    std::size_t context;

    filled_cache(arena& ram, const call_details& how, std::size_t layers, std::size_t context, std::size_t tokens)
        : cache(ram, {.layers = layers, .width = how.kv_heads * how.head_dim, .context = context + tokens}),
          context(context) {
        if (context == 0) return;
        const std::vector<std::int32_t> ids(context);
        batch b;
        b.add(ids);
        cache.reserve(b);
        std::vector<float> rows(context * how.kv_heads * how.head_dim);
        for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 17) * 0.1f - 0.8f;
        for (std::size_t l = 0; l < layers; ++l) cache.append(l, b, rows.data(), rows.data());
    }
};

} // namespace detail

/// One kind of call, ready to be made on one device. Everything given must outlive it; it is used on the thread
/// of the context's loop. Benches of one context share its pools of activations.
///
///     tern::context ctx(home, cpu);
///     tern::call_bench<> bench(ctx, gpu, kind, details, 8_MiB);
///     auto took = home.run(bench.once(32));
template <weight_tensor Weight = profiled_weight> class call_bench {
public:
    /// `most`: bytes of weights that calls go through in turn, so that they come from where those of a model of that
    /// size do. Throws unsupported_error for operators that it does not know, and what placing the weights throws.
    call_bench(context& ctx, device& on, const call_kind& k, const call_details& how, bytes most)
        : kind_(k), how_(how), on_(on), ctx_(ctx), ring_(ctx.home(), ctx.host(), on, k, most) {
        if (how_.head_dim == 0) how_.head_dim = k.in / how_.heads;
        if (make_ = maker(k.op); make_ == nullptr)
            throw unsupported_error("there is no way to measure the operator \"" + std::string(k.op) + "\" alone");
        const std::size_t pairs = k.op == "rope_angles" ? k.out : how_.head_dim / 2;
        angles_.inv_freq.assign(pairs, 0.01);
    }

    /// Attention reads a cache of `context` tokens from now on, in as many layers as go into `most`.
    void deepen(std::size_t context, std::size_t tokens, std::size_t layers, bytes most) {
        const double each = 8.0 * double(context + tokens) * double(how_.kv_heads * how_.head_dim);
        layers = std::clamp<std::size_t>(static_cast<std::size_t>(double(most.count) / each), 1, layers);
        cache_.reset();
        b_.clear(); // its positions follow the cache
        cache_ = std::make_unique<detail::filled_cache>(ctx_.host().memory(), how_, layers, context, tokens);
    }

    /// The seconds of one call with so many tokens.
    task<seconds> once(std::size_t tokens) {
        if (tokens != b_.size()) {
            b_.clear();
            const std::vector<std::int32_t> ids(tokens);
            b_.add(ids, cache_ ? cache_->context : 0);
        }
        return make_(*this, tokens);
    }

    bytes weight_bytes() const noexcept { return ring_.size(); }
    bool is_cut() const noexcept { return ring_.is_cut(); }

private:
    using call = task<seconds> (*)(call_bench&, std::size_t);

    static call maker(std::string_view op) {
        if (op == "linear") return &linear_call;
        if (op == "gated_linear") return &gated_call;
        if (op == "rms_norm") return &norm_call;
        if (op == "embed") return &embed_call;
        if (op == "add") return &add_call;
        if (op == "soft_cap") return &cap_call;
        if (op == "rope") return &rope_call;
        if (op == "rope_angles") return &angles_call;
        if (op == "attention") return &attention_call;
        if (op == "select_rows") return &select_call;
        if (op == "route") return &route_call;
        if (op == "experts") return &expert_call;
        return nullptr;
    }

    /// Activations with numbers in them, on a device.
    task<activation> some(std::size_t rows, std::size_t cols, device& on) {
        activation x = ctx_.make(ctx_.host(), rows, cols);
        for (std::size_t i = 0; i < rows * cols; ++i) x.data()[i] = static_cast<float>(i % 31) * 0.0625f - 0.9f;
        return ctx_.bring(std::move(x), on);
    }
    static seconds since(seconds begin) { return clock_now() - begin; }

    static task<seconds> linear_call(call_bench& b, std::size_t tokens) {
        const activation x = co_await b.some(tokens, b.kind_.in, b.on_);
        const std::vector<Weight>& w = b.ring_.next();
        const Weight none;
        const Weight& bias = w.size() > 1 ? w[1] : none;
        const seconds begin = clock_now();
        const activation y = co_await linear(b.ctx_, x, w[0], bias);
        co_return since(begin);
    }
    static task<seconds> gated_call(call_bench& b, std::size_t tokens) {
        const activation x = co_await b.some(tokens, b.kind_.in, b.on_);
        const std::vector<Weight>& w = b.ring_.next();
        const seconds begin = clock_now();
        const activation y = co_await gated_linear(b.ctx_, x, w.at(0), w.at(1), b.how_.act);
        co_return since(begin);
    }
    static task<seconds> norm_call(call_bench& b, std::size_t tokens) {
        const activation x = co_await b.some(tokens, b.kind_.out, b.on_);
        const Weight& w = b.ring_.next().at(0);
        const seconds begin = clock_now();
        const activation y = co_await rms_norm(b.ctx_, x, w, 1e-6f);
        co_return since(begin);
    }
    static task<seconds> embed_call(call_bench& b, std::size_t tokens) {
        const Weight& w = b.ring_.next().at(0);
        for (std::size_t i = 0; i < tokens; ++i)
            b.b_.tokens[i] = static_cast<std::int32_t>((b.turn_ += 7919) % w.rows());
        const seconds begin = clock_now();
        const activation y = co_await embed(b.ctx_, w, b.b_.tokens);
        co_return since(begin);
    }
    static task<seconds> add_call(call_bench& b, std::size_t tokens) {
        activation x = co_await b.some(tokens, b.kind_.out, b.on_);
        const activation y = co_await b.some(tokens, b.kind_.out, b.on_);
        const seconds begin = clock_now();
        x = co_await add(b.ctx_, std::move(x), y);
        co_return since(begin);
    }
    static task<seconds> cap_call(call_bench& b, std::size_t tokens) {
        activation x = co_await b.some(tokens, b.kind_.out, b.on_);
        const seconds begin = clock_now();
        x = co_await soft_cap(b.ctx_, std::move(x), 30.0f);
        co_return since(begin);
    }
    static task<seconds> rope_call(call_bench& b, std::size_t tokens) {
        if (b.table_.tokens != tokens) b.table_ = co_await rope_angles(b.ctx_, b.b_.positions, b.angles_);
        activation x = co_await b.some(tokens, b.kind_.out, b.on_);
        const seconds begin = clock_now();
        x = co_await rope(b.ctx_, std::move(x), b.table_, b.how_.head_dim, kernel::rope_pairing::half_split);
        co_return since(begin);
    }
    static task<seconds> angles_call(call_bench& b, std::size_t) {
        const seconds begin = clock_now();
        const rope_table table = co_await rope_angles(b.ctx_, b.b_.positions, b.angles_);
        co_return since(begin);
    }
    static task<seconds> attention_call(call_bench& b, std::size_t tokens) {
        if (!b.cache_) throw config_error("attention is measured over a cache: deepen it first");
        contiguous_cache& cache = b.cache_->cache;
        const std::size_t width = b.how_.kv_heads * b.how_.head_dim;
        activation q = co_await b.some(tokens, b.kind_.out, b.ctx_.host());
        activation k = co_await b.some(tokens, width, b.ctx_.host());
        activation v = co_await b.some(tokens, width, b.ctx_.host());
        cache.truncate(0, b.cache_->context);
        cache.reserve(b.b_);
        const std::size_t layer = b.turn_++ % cache.shape().layers;
        const attention_options how{.heads = b.how_.heads,
                                    .kv_heads = b.how_.kv_heads,
                                    .head_dim = b.how_.head_dim,
                                    .scale = 1 / std::sqrt(static_cast<float>(b.how_.head_dim))};
        const seconds begin = clock_now();
        const activation y =
            co_await attention(b.ctx_, std::move(q), std::move(k), std::move(v), b.b_, cache, layer, how);
        co_return since(begin);
    }
    static task<seconds> select_call(call_bench& b, std::size_t) {
        activation x = co_await b.some(2, b.kind_.out, b.on_);
        static const std::vector<std::int32_t> last{1};
        const seconds begin = clock_now();
        const activation y = co_await select_rows(b.ctx_, std::move(x), last);
        co_return since(begin);
    }

    /// The router, the choice, and what goes with the experts but is none: rows are gathered and combined.
    static task<seconds> route_call(call_bench& b, std::size_t tokens) {
        const activation x = co_await b.some(tokens, b.kind_.in, b.on_);
        const expert_weights<Weight> w{.router = b.ring_.next().at(0)};
        const seconds begin = clock_now();
        const expert_options how{.used = b.kind_.used};
        const detail::routing r = co_await detail::route(b.ctx_, x, w, how);
        const operand rows = co_await b.ctx_.reach(x, b.on_);
        const operand lists = co_await b.ctx_.reach(r.room, b.on_);
        const activation in = b.ctx_.make(b.on_, r.pairs(), x.cols());
        co_await b.ctx_.template launch<kernel::gather_rows>(b.on_, {.x = rows.data(),
                                                                     .x_stride = x.cols(),
                                                                     .cols = x.cols(),
                                                                     .index = r.order(lists.data()),
                                                                     .divisor = r.used,
                                                                     .rows = r.pairs(),
                                                                     .y = in.data(),
                                                                     .y_stride = x.cols()});
        const activation y = co_await detail::combined(b.ctx_, b.on_, r, lists.data(), in);
        co_return since(begin);
    }
    static task<seconds> expert_call(call_bench& b, std::size_t tokens) {
        const activation x = co_await b.some(tokens, b.kind_.in, b.on_);
        const activation y = b.ctx_.make(b.on_, tokens, b.kind_.in);
        const std::vector<Weight>& all = b.ring_.next();
        const expert_weights<Weight> w{.gate = all.at(0), .up = all.at(1), .down = all.at(2)};
        const seconds begin = clock_now();
        co_await detail::one_expert(b.ctx_, b.on_, w, 0, x.data(), tokens, y.data(), b.how_.act);
        co_return since(begin);
    }

    call_kind kind_;
    call_details how_;
    device& on_;
    context& ctx_;
    detail::weight_ring<Weight> ring_;
    call make_ = nullptr;
    std::unique_ptr<detail::filled_cache> cache_{};
    kernel::rope_frequencies angles_{};
    rope_table table_{};
    batch b_{};
    std::size_t turn_ = 0;
};

} // namespace tern
