// Any bytes as a safetensors file or as an index: an error, or tensors that cover the file's data exactly.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include <tern/file/open_checkpoint.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    try {
        const tern::checkpoint model = tern::open_safetensors(
            "fuzz/index", [&](const std::string& path) { return std::make_unique<tern::memory_source>(bytes, path); });
        std::uint64_t covered = 0;
        for (const tern::stored_tensor& tensor : model.tensors()) {
            covered += tensor.bytes;
            if (model.mapped(tensor).size() != tensor.bytes || model.find(tensor.name) != &tensor) std::abort();
        }
        std::uint64_t header = 0;
        for (int i = 7; i >= 0; --i) header = header << 8 | data[i];
        if (covered + header + 8 != size) std::abort();
    } catch (const tern::error&) {}
    return 0;
}
