// The sampler under its short names, for programs.
#pragma once

#include <tern/kernel/sample.hpp>

namespace tern {

/// See kernel/sample.hpp.
///
///     tern::sampler choose({.temperature = 0.8f, .top_p = 0.95f, .seed = 7});
using kernel::sampler;
using kernel::sampling;

} // namespace tern
