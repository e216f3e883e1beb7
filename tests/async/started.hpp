// A task that a test starts by hand and may destroy while it is suspended.
#pragma once

#include <tern/async/task.hpp>

struct started : tern::detail::completion {
    explicit started(tern::task<> t) : completion{&on_done}, body(std::move(t)) {
        tern::resume(tern::detail::task_access::prepare(body, *this));
    }
    static std::coroutine_handle<> on_done(completion& c) noexcept {
        auto& self = static_cast<started&>(c);
        self.finished = true;
        self.error = tern::detail::task_access::error(self.body);
        return {};
    }

    tern::task<> body;
    bool finished = false;
    std::exception_ptr error{};
};
