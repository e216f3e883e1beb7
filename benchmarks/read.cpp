// read: how fast a file is read in order by one of the library's readers.
//
//     bench_read MODEL.gguf --chunk 1MiB --depth 8        the last line: 2.31 GB/s
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <tern/async/run_loop.hpp>
#include <tern/async/scope.hpp>
#include <tern/memory/open_reader.hpp>

#include "../examples/options.hpp"

namespace {

constexpr const char* help = R"(read: reads a file in order, with several reads under way, and says how fast.

usage: bench_read FILE [options]
  --chunk SIZE     bytes a read, a multiple of 4 KiB (1MiB)
  --depth N        reads under way at once (8)
  --reader KIND    io_uring, pread, or buffered: pread through the page cache (the best there is)
  --size SIZE      only so much of the file
)";

constexpr std::size_t page = 4096;

struct job {
    tern::disk_reader& reader;
    tern::run_loop& loop;
    tern::byte_source& file;
    std::uint64_t size;
    std::size_t chunk;
    std::uint64_t next = 0;                 // where the next read begins
    std::vector<std::uint64_t> first_words; // of each chunk, to be checked afterwards
};

std::size_t length_at(const job& j, std::uint64_t at) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(j.chunk, j.size - at));
}

// One of the reads under way: takes the next chunk until there is none.
tern::task<> read_chunks(job& j, std::byte* memory) {
    while (j.next < j.size) {
        const std::uint64_t at = j.next;
        j.next += j.chunk;
        tern::read_call call{.from = &j.file, .offset = at, .into = memory, .size = length_at(j, at), .slack = true};
        co_await tern::read(j.reader, j.loop, call);
        std::memcpy(&j.first_words[at / j.chunk], memory, std::min<std::size_t>(sizeof(std::uint64_t), call.size));
    }
}

tern::task<> read_all(job& j, std::size_t depth, std::byte* memory) {
    tern::scope reads;
    for (std::size_t i = 0; i < depth; ++i) reads.spawn(read_chunks(j, memory + i * j.chunk));
    co_await reads.join();
}

tern::task<> read_page(job& j, std::uint64_t at, std::byte* memory, std::size_t size) {
    tern::read_call call{.from = &j.file, .offset = at, .into = memory, .size = size, .slack = true};
    co_await tern::read(j.reader, j.loop, call);
}

std::uint64_t checksum(std::uint64_t sum, std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) sum = (sum ^ static_cast<std::uint64_t>(b)) * 1099511628211u;
    return sum;
}

// Pages from all over the file, by the reader and by plain pread.
void check_pages(job& j, std::byte* memory) {
    std::array<std::byte, page> expected;
    std::uint64_t sums[2] = {14695981039346656037u, 14695981039346656037u};
    std::uint64_t random = 1;
    for (int i = 0; i < 256; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const std::uint64_t at = (random >> 20) % ((j.size + page - 1) / page) * page;
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(page, j.size - at));
        j.loop.run(read_page(j, at, memory, size));
        tern::read_exact(j.file, at, std::span(expected).first(size));
        sums[0] = checksum(sums[0], {memory, size});
        sums[1] = checksum(sums[1], std::span(expected).first(size));
    }
    if (sums[0] != sums[1]) throw tern::error("the reader's pages are not those of pread");
}

// What the timed reads brought.
void check_chunks(job& j) {
    for (std::uint64_t at = 0; at < j.size; at += j.chunk) {
        std::uint64_t word = 0;
        const std::size_t size = std::min(sizeof word, length_at(j, at));
        tern::read_exact(j.file, at, {reinterpret_cast<std::byte*>(&word), size});
        if (word != j.first_words[at / j.chunk])
            throw tern::error("the chunk at byte " + std::to_string(at) + " is not that of pread");
    }
}

void drop_cache(const tern::file_source& file) {
    ::fdatasync(file.descriptor()); // what is not written yet is not dropped
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
}

std::unique_ptr<tern::disk_reader> make_reader(const options& args, std::size_t depth) {
    const std::string kind = args.text("reader", "");
    const bool buffered = kind == "buffered";
    return tern::open_reader(
        {.depth = depth, .threads = depth, .direct = !buffered, .kind = buffered ? "pread" : kind});
}

void run_program(const options& args) {
    if (args.plain().size() != 1) throw usage_error{help};
    const auto chunk = static_cast<std::size_t>(args.size("chunk", {1 << 20}).count);
    const auto depth = static_cast<std::size_t>(args.whole("depth", 8));
    if (chunk == 0 || chunk % page != 0) throw tern::config_error("--chunk takes a multiple of 4 KiB");
    tern::file_source file(args.plain()[0]);
    const std::uint64_t size = std::min(file.size(), args.size("size", {file.size()}).count);
    if (size == 0) throw tern::io_error("is empty", {.path = file.path()});
    const std::unique_ptr<tern::disk_reader> reader = make_reader(args, depth);
    tern::run_loop loop;
    job j{.reader = *reader, .loop = loop, .file = file, .size = size, .chunk = chunk, .first_words = {}};
    j.first_words.resize(static_cast<std::size_t>((size + chunk - 1) / chunk));
    const tern::detail::bounce_memory memory(tern::checked_mul(chunk, depth, "--chunk times --depth"));
    std::ranges::fill(memory.span(), std::byte{0}); // the pages are there before anything is timed

    check_pages(j, memory.span().data());
    drop_cache(file);
    const tern::read_counters before = reader->counters();
    const auto begin = std::chrono::steady_clock::now();
    loop.run(read_all(j, depth, memory.span().data()));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const std::uint64_t requests = reader->counters().requests - before.requests;
    check_chunks(j);
    std::cout << reader->status() << "\n"
              << tern::to_string(tern::bytes{size}) << " in " << took.count() << " s by " << requests
              << " requests, checked\n"
              << static_cast<double>(size) / took.count() / 1e9 << " GB/s\n";
}

} // namespace

int main(int argc, char** argv) {
    try {
        run_program(options(argc, argv, {"chunk", "depth", "reader", "size"}, {}));
    } catch (const usage_error& e) {
        std::cerr << e.help;
        return 1;
    } catch (const std::exception& e) {
        std::cerr << "read: " << e.what() << "\n";
        return 1;
    }
}
