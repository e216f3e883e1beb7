// Runs a kernel several times, in different orders and over different poison, and compares what it leaves in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <tern/cuda/emulation/block.hpp>
#include <tern/cuda/emulation/memory.hpp>

namespace tern::cuda::emulation {

/// How kernels and streams are run. `orders` 1 runs each kernel once and compares nothing; from 2 on missing barriers
/// and reads of unwritten memory are found. Time and memory grow with it.
struct settings {
    unsigned orders = 3;
    std::uint64_t seed = 1;
    std::size_t shared_limit = 99 * 1024; ///< bytes of a block at most; 99 KiB on sm_86 and sm_89, 163 KiB on sm_80
    std::size_t capacity = std::size_t{1} << 32; ///< bytes of the device
};

/// A kernel, its arguments and its grid.
struct kernel_call {
    std::string name;
    dim3 blocks, threads;
    std::size_t dynamic_shared = 0;
    block_runner::body body = nullptr;
    void* argument = nullptr;
};

class checked_run {
public:
    checked_run(device_memory& memory, block_runner& runner, const settings& how)
        : memory_(memory), runner_(runner), how_(how) {}

    /// Throws fault, which names the kernel; the memory is then as it was before.
    void run(const kernel_call& call) {
        try {
            if (how_.orders < 2) {
                once(call, schedule_of(0, how_.seed));
                memory_.for_each([](allocation& a) { a.unwritten.clear(); }); // nobody knows
                return;
            }
            compare(call);
        } catch (const fault& f) { throw named(call, f); }
    }

private:
    using image = std::vector<std::vector<unsigned char>>; // the bytes of each allocation

    static fault named(const kernel_call& call, const fault& f) {
        std::string_view what = f.reason();
        what.remove_prefix(name_of(f.kind()).size() + 2);
        return {f.kind(), "kernel " + call.name + ": " + std::string(what)};
    }

    void once(const kernel_call& call, const schedule& s) {
        memory_.for_each([&](allocation& a) { a.poison(s.poison); });
        runner_.dynamic_shared = call.dynamic_shared;
        gridDim = call.blocks, blockDim = call.threads;
        std::vector<std::size_t> order(std::size_t{call.blocks.x} * call.blocks.y * call.blocks.z);
        random_source random(s.seed);
        s.arrange(order, random);
        for (const std::size_t i : order) {
            const std::size_t x = call.blocks.x, y = call.blocks.y;
            const uint3 index = {static_cast<unsigned>(i % x), static_cast<unsigned>(i / x % y),
                                 static_cast<unsigned>(i / x / y)};
            runner_.run(index, call.threads, how_.shared_limit, s, call.body, call.argument);
        }
        memory_.check();
    }

    void compare(const kernel_call& call) {
        const image before = take();
        image first, second; // of the two poisons
        try {
            once(call, schedule_of(0, how_.seed));
            first = take();
            for (unsigned k = 1; k < how_.orders; ++k) {
                put(before);
                const schedule s = schedule_of(k, how_.seed);
                once(call, s);
                if (!agrees(first, schedule_of(0, 0).poison, s.poison)) explain(call, before, first);
                if (k == 1) second = take();
            }
        } catch (...) {
            put(before);
            throw;
        }
        put(first);
        note_written(second);
    }

    /// Why two runs differ: the same order with other poison tells.
    [[noreturn]] void explain(const kernel_call& call, const image& before, const image& first) {
        const std::string where = difference_;
        put(before);
        schedule s = schedule_of(0, how_.seed);
        s.poison = poisons[1];
        once(call, s);
        if (!agrees(first, poisons[0], poisons[1]))
            throw fault(fault_kind::uninitialised,
                        "the result depends on memory that nobody wrote, or not yet (a missing barrier), at " +
                            difference_);
        throw fault(fault_kind::order, "the result depends on the order of threads, at " + where);
    }

    image take() {
        image bytes;
        memory_.for_each([&](allocation& a) { bytes.emplace_back(a.data, a.data + a.bytes); });
        return bytes;
    }
    void put(const image& bytes) {
        std::size_t i = 0;
        memory_.for_each([&](allocation& a) {
            if (a.bytes != 0) std::memcpy(a.data, bytes[i].data(), a.bytes);
            ++i;
        });
    }

    /// Whether memory holds what the first run left, but for bytes that both left as poison.
    bool agrees(const image& first, unsigned char first_poison, unsigned char poison) {
        std::size_t i = 0;
        bool same = true;
        memory_.for_each([&](allocation& a) {
            const std::vector<unsigned char>& then = first[i++];
            if (!same || a.bytes == 0 || std::memcmp(then.data(), a.data, a.bytes) == 0) return;
            for (std::size_t b = 0; b < a.bytes && same; ++b) {
                const bool untouched =
                    !a.unwritten.empty() && a.unwritten[b] && then[b] == first_poison && a.data[b] == poison;
                if (then[b] == a.data[b] || untouched) continue;
                same = false;
                difference_ = "byte " + std::to_string(b) + " of an allocation of " + std::to_string(a.bytes);
            }
        });
        return same;
    }
    /// The memory holds the first run's result: what differs in the second was written in neither.
    void note_written(const image& second) {
        std::size_t i = 0;
        memory_.for_each([&](allocation& a) {
            const std::vector<unsigned char>& other = second[i++];
            bool any = false;
            for (std::size_t b = 0; b < a.unwritten.size(); ++b) {
                a.unwritten[b] = a.unwritten[b] && a.data[b] != other[b];
                any = any || a.unwritten[b];
            }
            if (!any) a.unwritten.clear();
        });
    }

    device_memory& memory_;
    block_runner& runner_;
    const settings& how_;
    std::string difference_;
};

} // namespace tern::cuda::emulation
