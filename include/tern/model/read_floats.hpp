// The numbers of a small stored tensor, read when a model is opened.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/format/formats.hpp>
#include <tern/tensor/visit.hpp>

namespace tern::detail {

/// A stored tensor of `count` numbers in any format that tern brings. Throws parse_error with file and tensor where it
/// has another size or format, or holds what is no finite number; and what reading throws.
template <class File, class Stored>
std::vector<float> read_floats(const File& file, const Stored& t, std::size_t count) {
    const error_context where{.path = file.path(), .tensor = t.name};
    std::uint64_t numbers = 1;
    for (const std::uint64_t n : t.shape) numbers = checked_mul(numbers, n, "a shape");
    const std::size_t index = all_formats::index_of_name(t.format);
    if (numbers != count || index == all_formats::size)
        throw parse_error("has " + std::to_string(numbers) + " numbers in " + std::string(t.format) + ", expected " +
                              std::to_string(count),
                          where);
    std::vector<std::byte> raw(t.bytes);
    file.read(t, raw);
    std::vector<float> values(count);
    visit_format<all_formats>(index, [&]<format F>() {
        typename F::block block;
        for (std::size_t i = 0; i < count / F::block_size; ++i) {
            std::memcpy(&block, raw.data() + i * sizeof block, sizeof block);
            F::decode(block, values.data() + i * F::block_size);
        }
    });
    for (std::size_t i = 0; i < count; ++i)
        if (!std::isfinite(values[i])) throw parse_error("holds no finite number at " + std::to_string(i), where);
    return values;
}

} // namespace tern::detail
