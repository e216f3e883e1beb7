// Any bytes as a GGUF file: an error or a header whose tensors lie in the file; metadata converts or says why not.
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
        const tern::checkpoint model = tern::open_gguf("fuzz-00001-of-00002.gguf", {}, [&](const std::string& path) {
            return std::make_unique<tern::memory_source>(bytes, path);
        });
        for (const tern::stored_tensor& tensor : model.tensors()) {
            if (model.mapped(tensor).size() != tensor.bytes || model.find(tensor.name) != &tensor) std::abort();
        }
        for (const tern::metadata_entry& entry : model.metadata().entries()) {
            try {
                static_cast<void>(entry.value.as<std::int16_t>());
            } catch (const tern::error&) {}
            try {
                static_cast<void>(entry.value.as<std::vector<float>>());
            } catch (const tern::error&) {}
        }
    } catch (const tern::error&) {}
    return 0;
}
