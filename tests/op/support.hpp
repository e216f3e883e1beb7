// What the tests of operators share: a host and an emulated device, weights of either kind, and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tern/async/run_loop.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/op/context.hpp>
#include <tern/residency/store.hpp>
#include <tern/transfer/blocking.hpp>

#include <format/own_format.hpp>

namespace tern::test {

/// Weights in the plain format, in the user's own and in 8-bit blocks, under a store.
using op_weight = tensor<formats<f32, own::halves, q8_0>, tiers<vram, pageable, mapped>, blocking>;

/// Numbers from -2 to 2 in half steps, so that own::halves holds them exactly.
inline std::vector<float> numbers(std::size_t count, unsigned seed = 1) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = 0.5f * static_cast<float>(static_cast<int>(seed >> 28 & 7) - 4);
    }
    return values;
}

/// A loop, a host with two workers, an emulated device, a store, and a computing and a recording context.
struct bench {
    run_loop loop{};
    heap_arena ram{};
    cpu_device cpu{ram, 2};
    emulated_device gpu{{.capacity = {8 << 20}}};
    residency_store store{loop, ram};
    recorder notes{};
    context ctx{loop, cpu};
    context recording{loop, cpu, notes};
    std::vector<std::unique_ptr<std::vector<std::byte>>> backings{};

    /// A weight [experts, rows, cols] from values, with its bytes as the backing, not yet placed.
    template <format F>
    op_weight weight(const std::vector<float>& values, tensor_shape shape, const std::string& name) {
        REQUIRE(values.size() == shape.count());
        auto& raw = *backings.emplace_back(std::make_unique<std::vector<std::byte>>());
        raw.resize(values.size() / F::block_size * sizeof(typename F::block));
        for (std::size_t i = 0; i < values.size() / F::block_size; ++i) {
            typename F::block block;
            F::encode(values.data() + i * F::block_size, block);
            std::memcpy(raw.data() + i * sizeof block, &block, sizeof block);
        }
        const std::size_t each = raw.size() / shape.experts;
        slice_id first = 0;
        for (std::size_t e = 0; e < shape.experts; ++e) {
            const slice_id id =
                store.add(name, {.file = nullptr, .offset = 0, .memory = raw.data() + e * each}, {each});
            if (e == 0) first = id;
        }
        return {store, first, op_weight::formats_type::index_of<F>, shape, name};
    }
    op_weight weight(tensor_shape shape, const std::string& name, unsigned seed = 1) {
        return weight<f32>(numbers(shape.count(), seed), shape, name);
    }

    /// Computes a weight on a device from now on.
    void put(const op_weight& w, device& on) {
        for (std::size_t e = 0; e < w.experts(); ++e) loop.run(store.place(w.slice(e), on, &blocking::move));
    }

    activation make(const std::vector<float>& values, std::size_t rows) {
        activation x = ctx.make(cpu, rows, values.size() / rows);
        std::memcpy(x.data(), values.data(), values.size() * sizeof(float));
        return x;
    }
    activation make(std::size_t rows, std::size_t cols, unsigned seed = 2) {
        return make(numbers(rows * cols, seed), rows);
    }
    /// The values, wherever they lie.
    std::vector<float> values(activation x) {
        x = loop.run(ctx.bring(std::move(x), cpu));
        return {x.data(), x.data() + x.rows() * x.cols()};
    }
    std::vector<float> values(task<activation> work) { return values(loop.run(std::move(work))); }
    /// An activation in the emulated device's memory.
    activation on_gpu(activation x) { return loop.run(ctx.bring(std::move(x), gpu)); }
};

/// The same values to the last bit.
inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Runs `act`, expects it to throw E, and gives its text.
template <class E, class Act> std::string text_of(Act act) {
    try {
        act();
    } catch (const E& e) { return e.what(); }
    FAIL("nothing of the expected type was thrown");
    return {};
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace tern::test
