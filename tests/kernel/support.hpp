// What the kernel tests share: a format of a user's own, numbers from a seed, and running an operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <tern/format/plain.hpp>
#include <tern/kernel/slot.hpp>

namespace tern::test {

/// A user's format: 4 numbers in half steps.
struct halves {
    static constexpr std::string_view name = "halves";
    static constexpr std::size_t block_size = 4;
    struct block {
        signed char q[4];
    };
    static void decode(const block& b, float* out) noexcept {
        for (int i = 0; i < 4; ++i) out[i] = 0.5f * static_cast<float>(b.q[i]);
    }
};

/// Numbers from a seed, the same on every machine.
class numbers {
public:
    explicit numbers(std::uint64_t seed) : state_(seed * 2 + 1) {}

    std::uint32_t bits() {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::uint32_t>(state_ >> 33);
    }
    float operator()(float low = -1, float high = 1) {
        return low + (high - low) * static_cast<float>(bits()) * 0x1p-31f;
    }
    std::vector<float> operator()(std::size_t count, float low, float high) {
        std::vector<float> out(count);
        for (float& x : out) x = (*this)(low, high);
        return out;
    }
    std::vector<std::byte> bytes(std::size_t count) {
        std::vector<std::byte> out(count);
        for (std::byte& b : out) b = static_cast<std::byte>(bits() >> 8);
        return out;
    }

private:
    std::uint64_t state_;
};

template <class T> const std::byte* bytes_of(const T* data) { return reinterpret_cast<const std::byte*>(data); }

/// Runs the reference of an operator over all items.
template <class Op, class Format = tern::kernel::no_format> void run(const typename Op::args& args) {
    Op::template reference<Format>(args, 0, Op::items(args));
}

} // namespace tern::test
