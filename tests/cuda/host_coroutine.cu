// nvcc compiles tern.hpp, and a coroutine in a .cu file runs on the host. No call of CUDA: it runs without a GPU.
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include <tern/tern.hpp>

namespace {

tern::task<int> length(std::string text) {
    if (text.empty()) throw std::invalid_argument("empty");
    co_return static_cast<int>(text.size());
}

tern::task<int> sum(std::string a, std::string b) { co_return co_await length(a) + co_await length(b); }

TEST_CASE("cuda/host_coroutine: results and exceptions cross co_await") {
    CHECK(tern::sync_wait(sum("tern", "arctic")) == 10);
    CHECK_THROWS_AS(tern::sync_wait(sum("tern", "")), std::invalid_argument);
}

} // namespace
