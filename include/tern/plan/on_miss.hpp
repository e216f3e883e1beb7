// The ways to treat an expert that is not where it would be computed.
#pragma once

#include <string>
#include <string_view>

#include <tern/base/error.hpp>

namespace tern {

enum class on_miss : unsigned char {
    fetch,   ///< bring it to the device of its placement
    compute, ///< compute it on the host, where its bytes can be read there
    split,   ///< bring a part of the misses and compute the others, so that both take equally long
};

/// "fetch", "compute" or "split"; throws config_error for another word.
inline on_miss parse_on_miss(std::string_view word) {
    if (word == "fetch") return on_miss::fetch;
    if (word == "compute") return on_miss::compute;
    if (word == "split") return on_miss::split;
    throw config_error("\"" + std::string(word) + "\" is no way to treat misses: fetch, compute or split");
}

} // namespace tern
