// The frequencies of rotary position embedding, as a decoder keeps them.
#pragma once

#include <vector>

namespace tern::kernel {

/// What rope_angles needs: radians per position of each pair, and a factor on cos and sin.
struct rope_frequencies {
    std::vector<double> inv_freq; // [dims / 2]
    double magnitude = 1;
};

} // namespace tern::kernel
