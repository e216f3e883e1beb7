// What every system here is given to plan with, and what the compositions have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include <tern/cost/machine.hpp>
#include <tern/plan/graph.hpp>
#include <tern/plan/layer_upload.hpp>
#include <tern/plan/streaming.hpp>
#include <tern/plan/token_tiers.hpp>
#include <tern/sim/any_cost.hpp>

namespace systems {

using namespace std::string_view_literals;

inline const tern::location vram{tern::tier_of<tern::vram>, 0, 0};
inline constexpr std::size_t any_number = static_cast<std::size_t>(-1);

/// A cost model whose type is known at run time: a profile of this machine, or the roofline of another.
class prices {
public:
    template <tern::cost_model Cost>
    explicit prices(Cost cost) : inner_(std::make_shared<tern::cost_by<Cost>>(std::move(cost))) {}
    tern::seconds price(const tern::move& m) const { return inner_->price(m); }
    tern::seconds price(const tern::run& r) const { return inner_->price(r); }

private:
    std::shared_ptr<const tern::any_cost> inner_;
};
static_assert(tern::cost_model<prices>);

/// The model, the machine with its budgets, and what is asked.
struct setting {
    const tern::graph& graph;
    tern::machine machine;
    prices cost;
    tern::tier_info rest;    ///< where weights lie that the host computes: pageable, or mapped where RAM is too small
    tern::tier_info disk;    ///< where weights lie that come from the disk: mapped, or direct
    std::size_t prompt = 0;  ///< tokens
    std::size_t context = 0; ///< tokens when half is generated

    /// A run of some tokens: the prompt, or one in the middle of what is generated.
    tern::estimate_options run_of(std::size_t tokens) const {
        return {.shape = {.tokens = tokens, .context = tokens == 1 ? context : 0}};
    }
    /// Room of vram for what comes for a use: the largest layer, where that much is there.
    tern::bytes window() const {
        return std::min(tern::layer_upload::window_for(graph, vram), tern::weight_room(graph, machine, vram));
    }
};

} // namespace systems
