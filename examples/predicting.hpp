// What the options of generate say about predictions: a profile of this machine, measured where it is missing, and what
// it predicts of a run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <tern/cost/profile_json.hpp>
#include <tern/model/decoder.hpp>
#include <tern/model/runtime.hpp>
#include <tern/plan/by_tensor.hpp>
#include <tern/plan/estimate.hpp>
#include <tern/profile/moves.hpp>
#include <tern/profile/operators.hpp>
#include <tern/profile/probe.hpp>

/// Says on a terminal what is being measured.
struct measuring final : tern::profile_listener {
    bool shown = ::isatty(STDERR_FILENO) != 0;

    void measured(std::size_t done, std::size_t of, std::string_view what) override {
        if (shown) std::fprintf(stderr, "\rmeasuring %zu of %zu: %-60.60s", done, of, std::string(what).c_str());
    }
    ~measuring() override {
        if (shown) std::fprintf(stderr, "\r%80s\r", "");
    }
};

/// What is asked: a prompt in chunks, then tokens one by one.
struct predicted_run {
    std::size_t prompt = 0;
    std::size_t tokens = 0;
    std::size_t chunk = 0;
    tern::on_miss misses = tern::on_miss::fetch;
};

/// A profile in a file, and this machine: for predictions.
class predictor {
public:
    /// Reads the profile, or measures one and writes it where there is no such file. A profile of another machine is
    /// refused. `from` is where weights that are brought for a use come from.
    static predictor open(const std::string& path, tern::runtime& run, const tern::decoder& model, const tern::graph& g,
                          const tern::tier_info& from, std::size_t chunk) {
        tern::machine here = tern::describe_machine(run.devices(), run.machine());
        struct stat found {};
        const bool there = ::stat(path.c_str(), &found) == 0;
        tern::profile table = there ? tern::read_profile(path) : measure(run, model, g, here, from, chunk);
        if (!there) tern::write_text_file(path, tern::to_json(table) + "\n");
        try {
            return {tern::profiled(table, here), model, run};
        } catch (const tern::config_error& e) {
            throw tern::config_error(std::string(e.what()) + ". Remove the file, or name another, to measure anew",
                                     {.path = path});
        }
    }

    tern::speed of(const tern::placement& p, const tern::graph& g, const predicted_run& r) const {
        return tern::speed_of(g, p, now(), cost_, asking(r),
                              {.prompt = r.prompt, .chunk = r.chunk, .generated = r.tokens});
    }
    const tern::profiled& cost() const noexcept { return cost_; }
    /// The machine with budgets and what is reserved as they are now.
    tern::machine now() const {
        tern::machine m = cost_.on();
        for (tern::memory_space& s : m.memories)
            if (const tern::memory_space* const real = run_.machine().memory_at(s.where))
                s.budget = real->budget, s.reserved = real->reserved;
        return m;
    }
    /// The placement that is predicted to decode fastest.
    tern::placement by_tensor(const tern::graph& g, const predicted_run& r) const {
        tern::chain_options how{.how = asking(r)};
        how.how.shape.tokens = 1;
        how.how.shape.context = r.prompt + r.tokens / 2;
        return tern::by_tensor{cost_, how}.place(g, now());
    }

private:
    predictor(tern::profiled cost, const tern::decoder& model, tern::runtime& run)
        : cost_(std::move(cost)), run_(run), cache_per_token_(cache_of(model.config())) {}

    tern::estimate_options asking(const predicted_run& r) const {
        return {.shape = {.cache_per_token = cache_per_token_}, .misses = r.misses};
    }
    static tern::bytes cache_of(const tern::decoder_config& c) {
        return {std::uint64_t{8} * c.layers * c.kv_heads * c.head_dim};
    }
    static tern::profile measure(tern::runtime& run, const tern::decoder& model, const tern::graph& g,
                                 const tern::machine& here, const tern::tier_info& from, std::size_t chunk) {
        const tern::decoder_config& c = model.config();
        measuring shown;
        tern::profile_options how{.cache_per_token = cache_of(c)};
        how.tokens = {1, 2, 4, 8, 16, 32};
        if (chunk > 32) how.tokens.push_back(chunk);
        how.working_set = std::min(g.weight_bytes(), how.working_set);
        how.details = {.heads = c.heads,
                       .kv_heads = c.kv_heads,
                       .head_dim = c.head_dim,
                       .act = c.architecture.substr(0, 5) == "gemma" ? tern::kernel::activation_kind::gelu_tanh
                                                                     : tern::kernel::activation_kind::silu};
        how.activations = run.ctx().activations();
        tern::measured_operators got = tern::profile_operators(run.loop(), run.devices(), here, g, how, &shown);
        const tern::tier_info source = from == tern::tier_of<tern::direct> ? from : tern::tier_of<tern::mapped>;
        const std::uint64_t width = 4 * c.width;
        tern::move_profile_options moved{.from = {source, 0, 0}};
        moved.activations = {{64}, {width}, {width * 8}, {width * 64}, {width * 256}};
        tern::profile_moves(run.loop(), run.devices(), run.store(), g, moved, got.table);
        for (const std::string& why : got.left_out) std::fprintf(stderr, "note: not measured: %s\n", why.c_str());
        return std::move(got.table);
    }

    tern::profiled cost_;
    tern::runtime& run_;
    tern::bytes cache_per_token_;
};
