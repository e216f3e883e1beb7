// roofline: times from the machine's description alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/cost/cost_model.hpp>
#include <tern/cost/machine.hpp>

namespace tern {

/// The share of the data sheet's figures that programs reach, kept apart from the machine so that one set serves all.
/// The defaults are fitted to published figures of four models on a laptop (docs/cost.md); what those say nothing of is
/// what well-made programs reach: dense products 60% of a processor's arithmetic.
struct efficiency {
    double cpu_memory = 0.87;
    double cpu_arithmetic = 0.6;
    double accelerator_memory = 0.88;
    double accelerator_arithmetic = 0.69;
    double link = 0.76;
    /// Of the memory's bandwidth, where the host cuts numbers out of the bits of quantized blocks on the way.
    double cpu_quantized = 0.57;
    /// Of the host's arithmetic, in attention, whose rows are short: tern's own was measured at 16 to 19 of 94 Gflop/s
    /// over 512 keys and at 5 to 6 over 4096.
    double cpu_attention = 0.1;
    /// Tokens in a tile of an accelerator's matrix products. Where one kernel serves several calls, as for the experts
    /// of a layer, each call's tokens are rounded up to it: the tile is chosen for the whole batch. 128 is the largest
    /// of llama.cpp's kernels for quantized blocks.
    double accelerator_tile = 128;
};

/// The roofline of Williams, Waterman and Patterson, 2009, with what begins and ends an operator:
///
///     run    calls * launches * launch + max(bytes / (bandwidth * share), padding * operations / (rate * share))
///     move   latency + size * (1 + others on the bus) / (bandwidth * share), + sync for activations
///
/// Sync is that of the accelerator at either end, else of the processor that made the activations. Throws config_error
/// for what the machine does not say.
///
///     tern::roofline cost(tern::machines::rtx4090_64g());
///     auto t = cost.price(tern::run{.op = "linear", .format = "q4_k", .processor = "RTX 4090", ...});
class roofline {
public:
    explicit roofline(machine m, efficiency share = {}) : machine_(std::move(m)), share_(checked(share)) {}

    const machine& on() const noexcept { return machine_; }
    const efficiency& share() const noexcept { return share_; }

    /// The arithmetic that a format is computed in: f32 for f32 and for operators without weights, f16 for all else,
    /// because kernels decode quantized blocks to it. On processors without f16 the machine says the rate of f32 there.
    static constexpr number_kind arithmetic_of(std::string_view format) noexcept {
        return format.empty() || format == "f32" ? number_kind::f32 : number_kind::f16;
    }

    /// Whether numbers are cut out of a block's bits before they are multiplied. Those of 8 bits are operands as they
    /// are.
    static constexpr bool is_unpacked(std::string_view format) noexcept {
        return !format.empty() && format != "f32" && format != "f16" && format != "bf16" && !format.starts_with("q8_");
    }

    seconds price(const move& m) const {
        const link* const l = machine_.link_between(m.from, m.to);
        if (l == nullptr) throw_no_link(m.from, m.to);
        if (!l->bandwidth) known(l->bandwidth, "the bandwidth of the link " + way_of(*l));
        if (!l->latency) known(l->latency, "the latency of the link " + way_of(*l));
        const double turns = static_cast<double>(1 + sharers(machine_, *l, m.beside));
        seconds t = *l->latency + (m.size / *l->bandwidth) * (turns / share_.link);
        if (m.what == cargo::activations) t += sync_of(m.from, m.to);
        return t;
    }

    seconds price(const run& r) const {
        const processor* const p = machine_.processor_named(r.processor);
        if (p == nullptr) throw config_error("the machine has no processor \"" + std::string(r.processor) + "\"");
        const memory_space* const memory = machine_.memory_at(r.reads);
        if (memory == nullptr || !p->computes_from(r.reads))
            throw config_error(p->name + " does not compute from " + to_string(r.reads));
        const bool host = p->kind == processor_kind::cpu;
        seconds t{};
        const bytes size = r.weights + r.other;
        if (size.count != 0) {
            if (!memory->bandwidth) known(memory->bandwidth, "the bandwidth of " + to_string(r.reads));
            const double on_host = is_unpacked(r.format) ? share_.cpu_quantized : share_.cpu_memory;
            t = (size / *memory->bandwidth) * (1 / (host ? on_host : share_.accelerator_memory));
        }
        if (r.operations != 0) {
            const number_kind kind = arithmetic_of(r.format);
            const std::optional<double> rate = p->rates.of(kind);
            if (!rate) known(rate, "the rate of " + std::string(name_of(kind)) + " arithmetic of " + p->name);
            const double on_host = r.op == "attention" ? share_.cpu_attention : share_.cpu_arithmetic;
            const double reached = *rate * (host ? on_host : share_.accelerator_arithmetic);
            t = std::max(t, seconds{r.operations * (host ? 1 : padding(r)) / reached});
        }
        if (!p->launch) known(p->launch, "the time of a launch on " + p->name);
        return t + *p->launch * (r.calls * r.launches);
    }

private:
    static efficiency checked(const efficiency& e) {
        for (const double share : {e.cpu_memory, e.cpu_arithmetic, e.accelerator_memory, e.accelerator_arithmetic,
                                   e.link, e.cpu_quantized, e.cpu_attention})
            if (!(share > 0 && share <= 1))
                throw config_error("an efficiency of " + std::to_string(share) + " is not above 0 and at most 1");
        if (!(e.accelerator_tile >= 1 && e.accelerator_tile <= 65536))
            throw config_error("a tile of " + std::to_string(e.accelerator_tile) + " tokens is not from 1 to 65536");
        return e;
    }
    /// What a tile computes for each token that is in it. A few tokens are multiplied one by one, without tiles.
    double padding(const run& r) const noexcept {
        constexpr double one_by_one = 8;
        if (r.launches >= 1 || r.tokens <= one_by_one) return 1;
        return std::ceil(r.tokens / share_.accelerator_tile) * share_.accelerator_tile / r.tokens;
    }
    static std::string way_of(const link& l) { return "from " + to_string(l.from) + " to " + to_string(l.to); }
    [[noreturn]] static void throw_no_link(const location& from, const location& to) {
        throw config_error("the machine has no link from " + to_string(from) + " to " + to_string(to));
    }

    seconds sync_of(const location& from, const location& to) const {
        const processor* waits = machine_.processor_at(from);
        const processor* const taker = machine_.processor_at(to);
        if (taker != nullptr && taker->kind == processor_kind::accelerator) waits = taker;
        if (waits == nullptr) throw config_error("no processor computes from " + to_string(from));
        if (!waits->sync) known(waits->sync, "the time of a sync of " + waits->name);
        return *waits->sync;
    }

    machine machine_;
    efficiency share_;
};

static_assert(cost_model<roofline>);

} // namespace tern
