// Published figures of other engines, what tern's estimates say of them, and the efficiencies that are fitted to them.
//
// A fit leaves one model out and predicts it, so that no figure is compared with constants that it had a part in.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tern/cost/presets.hpp>
#include <tern/cost/roofline.hpp>
#include <tern/model/decoder.hpp>
#include <tern/plan/by_tensor.hpp>
#include <tern/plan/estimate.hpp>
#include <tern/plan/layer_upload.hpp>
#include <tern/sim/described_decoder.hpp>
#include <tern/sim/described_file.hpp>
#include <tern/sim/simulation.hpp>

namespace tern::bench {

inline constexpr std::array<std::size_t, 4> prompts{512, 1024, 2048, 4096}; ///< tokens, in chunks of 512
inline constexpr std::size_t decoded_after = 2048, generated = 128;

/// Tokens a second: of prompts of each length, and of what follows one of 2048 tokens. 0: not published.
struct figures {
    std::array<double, 4> prefill{};
    double decode = 0;
};
struct published_model {
    const char* name;
    const char* file; ///< below examples/models
    figures llama_cpp, atsinfer, ktransformers, vllm;
};

/// arXiv 2607.10183v2, figures 10 and 11, read off the bars and so some 3% uncertain. Batch 1, an RTX 3060 Laptop of
/// 6 GB whose memory is filled as far as possible, a Core i7-11800H, 32 GB, PCIe 4.0 x16: `machines::rtx3060_laptop`.
inline constexpr std::array<published_model, 4> published{{
    {"GLM-Z1-9B FP16",
     "glm-z1-9b-fp16.json",
     {{490, 478, 455, 368}, 3.0},
     {{795, 770, 745, 685}, 3.1},
     {},
     {{160, 160, 155, 150}, 0.7}},
    {"Qwen3-14B INT4",
     "qwen3-14b-int4.json",
     {{520, 520, 535, 515}, 6.5},
     {{725, 705, 690, 655}, 8.7},
     {},
     {{185, 175, 185, 180}, 3.0}},
    {"Qwen3-30B-A3B INT4",
     "qwen3-30b-a3b-int4.json",
     {{440, 455, 455, 450}, 14.2},
     {{650, 695, 730, 775}, 29.0},
     {{30, 30, 45, 55}, 17.9},
     {{535, 600, 540, 505}, 14.8}},
    {"GPT-OSS-20B MXFP4",
     "gpt-oss-20b-mxfp4.json",
     {{625, 635, 625, 580}, 20.2},
     {{1075, 1080, 1110, 1095}, 24.0},
     {},
     {}},
}};

/// A model on the machine of the figures. Placements are made once: those that a fit asks for go by bytes alone.
class predicted_model {
public:
    /// Throws where `folder` has no such description.
    predicted_model(const published_model& m, const std::string& folder) : published_(m) {
        const machine on = machines::rtx3060_laptop();
        const cost_by cost{roofline(on)};
        simulation sim(on, cost);
        const model_description description = read_description(folder + "/" + m.file);
        const checkpoint file = described_file(description);
        const std::unique_ptr<decoder> model = open_described(description, file, sim.store());
        graph_ = record(*model, sim.loop(), sim.host(), chunk);
        const kv_shape keys = model->config().cache_for(1);
        cache_per_token_ = bytes{2 * 2 * keys.layers * keys.width}; // keys and values, f16
        for (const std::size_t prompt : prompts) machines_.push_back(beside_cache(on, prompt + generated));
        for (const machine& at : machines_) {
            // llama.cpp reserves logits for every token of a chunk (its issue 23527).
            const layer_upload split{.keep = {.besides = {std::uint64_t{4} * chunk * description.vocabulary}}};
            uploads_.push_back(split.place(graph_, at));
            splits_.push_back(split.place_for(1, graph_, at));
        }
    }

    const graph& calls() const noexcept { return graph_; }
    const published_model& row() const noexcept { return published_; }

    /// Layer split, whose other layers the accelerator computes for a prompt and the host for single tokens.
    figures llama_cpp(const efficiency& e) const {
        figures f;
        for (std::size_t i = 0; i < prompts.size(); ++i) f.prefill[i] = prefill(uploads_[i], i, serial_engine, e);
        f.decode = decode(splits_[at_decode], serial_engine, e);
        return f;
    }
    /// by_tensor for single tokens, with the share of what it leaves on the host brought that is fastest for a run: its
    /// static schedule, and of the dynamic one that uploads are chosen before each run.
    figures atsinfer(const efficiency& e) const {
        figures f;
        const roofline cost(machines_[at_decode], e);
        chain_options how;
        how.how.shape = shape(1, fused_engine);
        how.how.shape.context = decoded_after;
        how.headroom = layer_upload::window_for(graph_, how.into);
        const placement base = by_tensor{cost, how}.place(graph_, machines_[at_decode]);
        for (const double share : {0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0}) {
            placement p = base;
            if (share > 0 && !bring_share(p, graph_, how.rest, how.into, how.headroom, share, on_miss::split)) break;
            for (std::size_t i = 0; i < prompts.size(); ++i)
                f.prefill[i] = std::max(f.prefill[i], prefill(p, i, fused_engine, e));
            f.decode = std::max(f.decode, decode(p, fused_engine, e));
        }
        return f;
    }
    /// What every token uses on the accelerator, all experts on the host, which computes them.
    figures ktransformers(const efficiency& e) const {
        const location into{tier_of<vram>, 0, 0};
        const std::vector<tensor_role> roles = roles_of(graph_);
        placement p = all_cpu{}.place(graph_, machines_.front());
        for (std::size_t t = 0; t < roles.size(); ++t)
            if (roles[t] == tensor_role::used) p.tensors[t].where = into;
        return both(p, fused_engine, e);
    }
    /// The weights that the accelerator does not hold are brought for each use, single tokens included.
    figures vllm(const efficiency& e) const { return both(uploads_[at_decode], fused_engine, e); }

private:
    static constexpr std::size_t chunk = 512;
    static constexpr std::size_t at_decode = 2; // prompts[2] tokens are there

    static run_shape plain(std::size_t tokens, const engine_habits& habits) {
        run_shape s;
        s.tokens = tokens;
        s.habits = habits;
        return s;
    }
    run_shape shape(std::size_t tokens, const engine_habits& habits) const {
        run_shape s = plain(tokens, habits);
        s.cache_per_token = cache_per_token_;
        s.recorded = chunk;
        return s;
    }
    /// The machine beside the share of a cache that lies where as much of the weights lies.
    machine beside_cache(const machine& m, std::size_t tokens) const {
        const location into{tier_of<vram>, 0, 0};
        const double cache = static_cast<double>((cache_per_token_ * tokens).count);
        const double room = static_cast<double>(m.room_at(into).count);
        const double share = std::min(1.0, room / (static_cast<double>(graph_.weight_bytes().count) + cache));
        const bytes kept{static_cast<std::uint64_t>(share * cache)};
        return m.with_reserved(into, m.memory_at(into)->reserved + kept);
    }
    double prefill(const placement& p, std::size_t i, const engine_habits& habits, const efficiency& e) const {
        return speed(p, machines_[i], prompts[i], habits, e).prefill;
    }
    double decode(const placement& p, const engine_habits& habits, const efficiency& e) const {
        estimate_options how;
        how.shape = shape(1, habits);
        how.shape.context = decoded_after + generated / 2;
        const machine& m = machines_[at_decode];
        return 1 / estimate(graph_, p, m, roofline(m, e), how).total.count;
    }
    figures both(const placement& p, const engine_habits& habits, const efficiency& e) const {
        figures f;
        for (std::size_t i = 0; i < prompts.size(); ++i) f.prefill[i] = prefill(p, i, habits, e);
        f.decode = decode(p, habits, e);
        return f;
    }
    tern::speed speed(const placement& p, const machine& m, std::size_t prompt, const engine_habits& habits,
                      const efficiency& e) const {
        estimate_options how;
        how.shape = shape(chunk, habits);
        return speed_of(graph_, p, m, roofline(m, e), how, {prompt, chunk, generated});
    }

    published_model published_;
    graph graph_{};
    bytes cache_per_token_{};
    std::vector<machine> machines_{}; // by prompt
    std::vector<placement> uploads_{}, splits_{};
};

/// The constants that are fitted; the figures say nothing of the others.
inline constexpr std::array<double efficiency::*, 6> fitted{
    &efficiency::cpu_memory,         &efficiency::cpu_quantized,          &efficiency::cpu_attention,
    &efficiency::accelerator_memory, &efficiency::accelerator_arithmetic, &efficiency::link};
inline constexpr std::array<const char*, 6> fitted_names{
    "cpu_memory", "cpu_quantized", "cpu_attention", "accelerator_memory", "accelerator_arithmetic", "link"};

/// What a constant is taken to be before any figure is looked at, and what a figure or a constant may well be off by.
inline constexpr efficiency prior{0.8, 0.6, 0.85, 0.6, 0.82, 0.5, 0.1};
inline constexpr double off_figure = 0.15, off_constant = 0.25;

namespace detail {

using constants = std::array<double, fitted.size()>;

inline efficiency efficiency_of(const constants& logs) {
    efficiency e = prior;
    for (std::size_t i = 0; i < logs.size(); ++i) e.*fitted[i] = std::min(1.0, prior.*fitted[i] * std::exp(logs[i]));
    return e;
}

/// log(predicted / published) of llama.cpp's figures. The four prompts of a model count together as its decoding does.
inline std::vector<double> residuals(std::span<const predicted_model* const> models, const constants& logs) {
    std::vector<double> all;
    const efficiency e = efficiency_of(logs);
    for (const predicted_model* m : models) {
        const figures f = m->llama_cpp(e);
        const figures& truth = m->row().llama_cpp;
        for (std::size_t i = 0; i < prompts.size(); ++i)
            all.push_back(std::log(f.prefill[i] / truth.prefill[i]) / 2 / off_figure);
        all.push_back(std::log(f.decode / truth.decode) / off_figure);
    }
    for (const double l : logs) all.push_back(l / off_constant);
    return all;
}

/// Solves a x = b for a symmetric matrix with a diagonal of at least 1 / off_constant^2.
inline constants solved(std::array<constants, fitted.size()> a, constants b) {
    for (std::size_t i = 0; i < b.size(); ++i)
        for (std::size_t j = i + 1; j < b.size(); ++j) {
            const double f = a[j][i] / a[i][i];
            for (std::size_t k = i; k < b.size(); ++k) a[j][k] -= f * a[i][k];
            b[j] -= f * b[i];
        }
    for (std::size_t i = b.size(); i-- > 0;) {
        for (std::size_t k = i + 1; k < b.size(); ++k) b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    return b;
}

} // namespace detail

/// The most likely efficiencies, by Gauss and Newton: figures off by `off_figure` and constants by `off_constant` from
/// `prior` are equally unlikely, so that what the models do not determine stays what it was.
inline efficiency fit(std::span<const predicted_model* const> models) {
    constexpr double step = 1e-3;
    detail::constants logs{};
    for (int round = 0; round < 8; ++round) {
        const std::vector<double> at = detail::residuals(models, logs);
        std::array<std::vector<double>, fitted.size()> slope;
        for (std::size_t i = 0; i < fitted.size(); ++i) {
            detail::constants moved = logs;
            moved[i] -= step; // downwards: 1 is the most
            slope[i] = detail::residuals(models, moved);
            for (std::size_t r = 0; r < at.size(); ++r) slope[i][r] = (at[r] - slope[i][r]) / step;
        }
        std::array<detail::constants, fitted.size()> a{};
        detail::constants b{};
        for (std::size_t r = 0; r < at.size(); ++r)
            for (std::size_t i = 0; i < fitted.size(); ++i) {
                b[i] -= slope[i][r] * at[r];
                for (std::size_t j = 0; j < fitted.size(); ++j) a[i][j] += slope[i][r] * slope[j][r];
            }
        const detail::constants change = detail::solved(a, b);
        double most = 0;
        for (std::size_t i = 0; i < fitted.size(); ++i) {
            const double top = -std::log(prior.*fitted[i]);
            logs[i] = std::min(top, logs[i] + change[i]);
            most = std::max(most, std::abs(change[i]));
        }
        if (most < 1e-4) break;
    }
    return detail::efficiency_of(logs);
}

/// The constants of all models but one.
inline efficiency fit_without(const std::vector<predicted_model>& models, std::size_t left_out) {
    std::vector<const predicted_model*> others;
    for (std::size_t i = 0; i < models.size(); ++i)
        if (i != left_out) others.push_back(&models[i]);
    return fit(others);
}

inline std::vector<predicted_model> all_models(const std::string& folder) {
    std::vector<predicted_model> models;
    for (const published_model& m : published) models.emplace_back(m, folder);
    return models;
}

} // namespace tern::bench
