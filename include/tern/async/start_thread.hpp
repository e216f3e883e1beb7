// Starting a thread, with an error that says what it was for.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <tern/base/error.hpp>

namespace tern::detail {

/// A thread that runs `work`; budget_error where the system has none.
template <class F> std::thread start_thread(std::string_view what, F work) {
    try {
        return std::thread(std::move(work));
    } catch (const std::system_error&) {
        throw budget_error("the system gave no thread for " + std::string(what) +
                           ": let others end, or raise the limit on processes (ulimit -u)");
    }
}

} // namespace tern::detail
