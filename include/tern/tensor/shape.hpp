// The shape of a weight: a matrix, or a packed stack of matrices, one for each expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tern/base/checked.hpp>

namespace tern {

/// [experts, rows, cols], cols contiguous. A vector is one row; a plain matrix has one expert.
struct tensor_shape {
    std::size_t rows = 1;
    std::size_t cols = 1;
    std::size_t experts = 1;

    friend bool operator==(const tensor_shape&, const tensor_shape&) = default;

    /// Numbers in it; throws shape_error when that overflows.
    std::uint64_t count() const {
        return checked_mul<std::uint64_t>(checked_mul<std::uint64_t>(rows, cols, "a shape"), experts, "a shape");
    }
};

inline std::string to_string(const tensor_shape& s) {
    std::string text = "[" + std::to_string(s.rows) + ", " + std::to_string(s.cols) + "]";
    return s.experts == 1 ? text : "[" + std::to_string(s.experts) + ", " + text.substr(1);
}

} // namespace tern
