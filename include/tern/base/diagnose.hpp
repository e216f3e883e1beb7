// Compile-time diagnostics: a failed requirement puts the offending type or value into the error's first line.
#pragma once

#include <cstddef>

namespace tern {

/// Never defined: naming `offending<X>::type` in an error shows X.
template <class...> struct offending;
/// The same for values.
template <auto...> struct offending_value;

/// False, but only once a template is instantiated.
template <class...> inline constexpr bool always_false = false;

} // namespace tern
