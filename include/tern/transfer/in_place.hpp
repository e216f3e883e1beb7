// in_place: compute where the bytes lie. Nothing moves.
#pragma once

#include <string>
#include <string_view>

#include <tern/base/error.hpp>
#include <tern/transfer/request.hpp>

namespace tern {

/// For tensors that are read from a mapping, or that own their bytes. Asking such a tensor to move is refused.
struct in_place {
    static constexpr std::string_view name = "in_place";

    static task<void> move(transfer_request request) {
        throw config_error("its transfer is in_place and the placement asks for a move to " +
                               to_string(request.on->memory().where()) +
                               ": give it another transfer or place it as mapped",
                           {.tensor = std::string(request.what)});
    }
};

} // namespace tern
