// Seeded faults: each broken kernel and program is reported, and its right twin is not.
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cuda/emulation/broken_kernels.hpp>

using namespace tern::cuda::emulation;

namespace {

/// Device memory of the emulation.
template <class T> struct buffer {
    T* data = nullptr;
    explicit buffer(std::size_t n) { REQUIRE(cudaMalloc(&data, n * sizeof(T)) == cudaSuccess); }
    buffer(const buffer&) = delete;
    ~buffer() { cudaFree(data); }
};

std::vector<int> numbers(std::size_t n) {
    std::vector<int> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<int>(i * 7 + 3);
    return v;
}

/// What running `kernel` over `count` numbers, and reading `count` back, reports.
template <class Kernel>
std::optional<fault_kind> reported(Kernel kernel, unsigned blocks, unsigned threads, std::size_t in, std::size_t out) {
    configure({});
    buffer<int> a(in), b(out);
    const std::vector<int> from = numbers(in);
    std::vector<int> to(out);
    try {
        cudaMemcpy(a.data, from.data(), in * sizeof(int), cudaMemcpyHostToDevice);
        tern::cuda::launch({.blocks = blocks, .threads = threads, .name = "broken"}, kernel, a.data, b.data);
        cudaMemcpy(to.data(), b.data, out * sizeof(int), cudaMemcpyDeviceToHost);
        cudaDeviceSynchronize();
    } catch (const fault& f) {
        MESSAGE(std::string(f.what()));
        return f.kind();
    }
    return std::nullopt;
}

} // namespace

TEST_CASE("cuda/emulation/broken: right kernels are not reported") {
    CHECK(!reported(broken::reverse, 1, 64, 64, 64));
    CHECK(!reported(broken::warp_sum, 1, 32, 32, 1));
}

TEST_CASE("cuda/emulation/broken: barriers") {
    // What is read too early is unwritten in one order: either sentence is right.
    const auto missing = reported(broken::missing_barrier, 1, 64, 64, 64);
    CHECK((missing == fault_kind::order || missing == fault_kind::uninitialised));
    CHECK(reported(broken::missing_second_barrier, 1, 64, 128, 128) == fault_kind::order);
    CHECK(reported(broken::divergent_barrier, 1, 64, 64, 64) == fault_kind::divergent_barrier);
    CHECK(reported(broken::early_return, 1, 64, 64, 60) == fault_kind::divergent_barrier);
    CHECK(reported(broken::ordered_blocks, 8, 1, 8, 8).has_value());
}

TEST_CASE("cuda/emulation/broken: masks of warps") {
    CHECK(reported(broken::mask_too_small, 1, 32, 32, 1) == fault_kind::mask);
    CHECK(reported(broken::mask_too_large, 1, 32, 32, 1) == fault_kind::divergent_warp);
    CHECK(reported(broken::source_outside_mask, 1, 32, 32, 1) == fault_kind::uninitialised);
}

TEST_CASE("cuda/emulation/broken: memory") {
    CHECK(reported(broken::shared_overflow, 1, 64, 64, 64) == fault_kind::shared_overflow);
    CHECK(reported(broken::unwritten_output, 1, 64, 64, 64) == fault_kind::unwritten);
    CHECK(reported(broken::uninitialised_shared, 1, 64, 64, 1) == fault_kind::uninitialised);
    CHECK(reported(broken::missing_wait, 1, 64, 64, 64) == fault_kind::unwritten); // poison is handed on as it is
    if constexpr (!has_asan) {                                                     // which ends the program at once
        CHECK(reported(broken::shared_overflow_by_pointer, 1, 64, 64, 64) == fault_kind::shared_overflow);
        CHECK(reported(broken::global_overflow, 1, 64, 64, 64) == fault_kind::global_overflow);
    }
}

TEST_CASE("cuda/emulation/broken: a sum by float atomics depends on its order") {
    configure({});
    buffer<int> a(64);
    buffer<float> sum(1);
    const std::vector<int> from = numbers(64);
    cudaMemcpy(a.data, from.data(), 256, cudaMemcpyHostToDevice);
    cudaMemset(sum.data, 0, 4);
    try {
        tern::cuda::launch({.blocks = 1, .threads = 64}, broken::unordered_sum, a.data, sum.data);
        cudaDeviceSynchronize();
        FAIL("no report");
    } catch (const fault& f) { CHECK(f.kind() == fault_kind::order); }
}

namespace {

/// Uploads on one stream, adds on another; with an event between them or without.
std::vector<int> upload_and_add(bool with_event) {
    buffer<int> data(64);
    cudaStream_t copies = nullptr, kernels = nullptr;
    cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking);
    cudaEvent_t arrived = nullptr;
    cudaEventCreate(&arrived);
    std::vector<int> from = numbers(64), to(64);
    cudaMemset(data.data, 0, 256); // so that nothing is unwritten
    cudaDeviceSynchronize();
    cudaMemcpyAsync(data.data, from.data(), 256, cudaMemcpyHostToDevice, copies);
    from.assign(64, -1); // pageable: the source was read
    if (with_event) {
        cudaEventRecord(arrived, copies);
        cudaStreamWaitEvent(kernels, arrived);
    }
    tern::cuda::launch({.blocks = 1, .threads = 64, .stream = kernels}, broken::add_one, data.data);
    cudaMemcpyAsync(to.data(), data.data, 256, cudaMemcpyDeviceToHost, kernels);
    cudaStreamDestroy(copies);
    cudaStreamDestroy(kernels);
    cudaEventDestroy(arrived);
    return to;
}

/// Uploads two chunks through one page-locked buffer.
std::vector<int> through_one_stage(bool wait) {
    buffer<int> data(128);
    int* stage = nullptr;
    REQUIRE(cudaMallocHost(&stage, 256) == cudaSuccess);
    cudaStream_t s = nullptr;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    struct cleanup {
        int* stage;
        cudaStream_t s;
        ~cleanup() { cudaFreeHost(stage), cudaStreamDestroy(s); }
    } ends{stage, s};
    for (int chunk = 0; chunk < 2; ++chunk) {
        for (int i = 0; i < 64; ++i) stage[i] = 64 * chunk + i;
        cudaMemcpyAsync(data.data + 64 * chunk, stage, 256, cudaMemcpyHostToDevice, s);
        if (wait) cudaStreamSynchronize(s);
    }
    cudaStreamSynchronize(s);
    std::vector<int> to(128);
    cudaMemcpy(to.data(), data.data, 512, cudaMemcpyDeviceToHost);
    return to;
}

/// A pageable cudaMemcpy returns early: a non-blocking stream does not wait for it (C1).
std::vector<int> pageable_then_other_stream(bool wait) {
    buffer<int> data(64);
    cudaStream_t s = nullptr;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    std::vector<int> from = numbers(64), to(64);
    cudaMemcpy(data.data, from.data(), 256, cudaMemcpyHostToDevice);
    if (wait) cudaDeviceSynchronize();
    tern::cuda::launch({.blocks = 1, .threads = 64, .stream = s}, broken::add_one, data.data);
    cudaMemcpyAsync(to.data(), data.data, 256, cudaMemcpyDeviceToHost, s);
    cudaStreamDestroy(s);
    return to;
}

template <class Program> std::optional<fault_kind> under(Program program) {
    try {
        under_schedules(12, program);
    } catch (const fault& f) {
        MESSAGE(std::string(f.what()));
        return f.kind();
    }
    return std::nullopt;
}

} // namespace

TEST_CASE("cuda/emulation/broken: streams") {
    CHECK(!under([] { return upload_and_add(true); }));
    CHECK(under([] { return upload_and_add(false); }) == fault_kind::streams);
    CHECK(!under([] { return through_one_stage(true); }));
    CHECK(under([] { return through_one_stage(false); }) == fault_kind::staging_reused);
    CHECK(!under([] { return pageable_then_other_stream(true); }));
    CHECK(under([] { return pageable_then_other_stream(false); }).has_value());
    configure({});
}
