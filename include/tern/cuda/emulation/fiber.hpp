// Fibers: a thread of a block is a function with a stack of its own that is left at a barrier and taken up again.
//
// ucontext of the C library serves every processor that it serves; a switch costs about 0.3 us, of which a system call
// for the signal mask is the most. AddressSanitizer is told of each switch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include <sys/mman.h>
#include <ucontext.h>

#include <tern/cuda/emulation/guard.hpp>

namespace tern::cuda::emulation {

/// A stack and where its function stands. Runs one function after another; the stack is kept. Is left only by `leave`,
/// so a function that is never taken up again loses its stack with the fiber: its destructors do not run.
class fiber {
public:
    using function = void (*)(void*);
    static constexpr std::size_t stack_bytes = has_asan ? 256 * 1024 : 64 * 1024;

    fiber() {
        // The lowest page stays without access: a stack that is too small stops there.
        void* map = mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED) throw std::bad_alloc();
        map_ = static_cast<unsigned char*>(map);
        mprotect(map_, page, PROT_NONE);
    }
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;
    ~fiber() {
        allow(stack(), stack_bytes);
        munmap(map_, stack_bytes + page);
    }

    /// Gives the fiber a function; it begins with the next `enter`. Requires that none is under way.
    void assign(function f, void* argument) {
        function_ = f, argument_ = argument;
        if (started_) return;
        getcontext(&here_);
        here_.uc_stack.ss_sp = stack();
        here_.uc_stack.ss_size = stack_bytes;
        here_.uc_link = nullptr;
        const auto self = reinterpret_cast<std::uintptr_t>(this);
        makecontext(&here_, reinterpret_cast<void (*)()>(&fiber::trampoline), 2, static_cast<unsigned>(self >> 32),
                    static_cast<unsigned>(self));
        started_ = true;
    }

    /// Runs the function until it leaves or ends.
    void enter() {
        start_switch(&outer_fake_, stack(), stack_bytes);
        swapcontext(&outer_, &here_);
        finish_switch(outer_fake_, nullptr, nullptr);
    }
    /// From within the function: back to whoever entered.
    void leave() {
        start_switch(&fake_, outer_stack_, outer_bytes_);
        swapcontext(&here_, &outer_);
        finish_switch(fake_, &outer_stack_, &outer_bytes_);
    }

private:
    static constexpr std::size_t page = 4096;

    unsigned char* stack() const noexcept { return map_ + page; }

    static void trampoline(unsigned high, unsigned low) {
        auto* self = reinterpret_cast<fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
        finish_switch(nullptr, &self->outer_stack_, &self->outer_bytes_);
        for (;;) {
            self->function_(self->argument_);
            self->leave();
        }
    }
    static void start_switch([[maybe_unused]] void** fake, [[maybe_unused]] const void* to,
                             [[maybe_unused]] std::size_t bytes) {
#if defined(TERN_EMULATION_ASAN)
        __sanitizer_start_switch_fiber(fake, to, bytes);
#endif
    }
    static void finish_switch([[maybe_unused]] void* fake, [[maybe_unused]] const void** from,
                              [[maybe_unused]] std::size_t* bytes) {
#if defined(TERN_EMULATION_ASAN)
        __sanitizer_finish_switch_fiber(fake, from, bytes);
#endif
    }

    unsigned char* map_ = nullptr;
    bool started_ = false;
    function function_ = nullptr;
    void* argument_ = nullptr;
    ucontext_t here_{}, outer_{};
    void* fake_ = nullptr;
    void* outer_fake_ = nullptr;
    const void* outer_stack_ = nullptr;
    std::size_t outer_bytes_ = 0;
};

} // namespace tern::cuda::emulation
