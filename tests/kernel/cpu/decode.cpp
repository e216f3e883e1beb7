#include <doctest/doctest.h>

#include <tern/kernel/cpu/decode.hpp>
#include <tern/kernel/cpu/decode_k.hpp>

#include "support.hpp"

#if defined(__x86_64__)

using namespace tern;
using namespace tern::test;

TEST_CASE("kernel/cpu/decode: any bytes decode to the bits of the plain function") {
    if (!has_avx2()) return;
    each_format([]<class F>(std::type_identity<F>) {
        CAPTURE(F::name);
        numbers from{11};
        for (const std::size_t count : {1, 2, 3, 7, 8, 9, 200}) {
            std::vector<typename F::block> blocks(count);
            for (int round = 0; round < 50; ++round) {
                const auto bytes = from.bytes(count * sizeof(typename F::block));
                std::memcpy(static_cast<void*>(blocks.data()), bytes.data(), bytes.size());
                std::vector<float> out(count * F::block_size);
                kernel::cpu::avx2_decoder<F>::run(blocks.data(), count, out.data());
                REQUIRE(same(out, decoded<F>(blocks)));
            }
        }
    });
}

TEST_CASE("kernel/cpu/decode: every scale byte of mxfp4 and every binary16") {
    if (!has_avx2()) return;
    std::vector<mxfp4::block> blocks(256);
    for (int e = 0; e < 256; ++e) {
        blocks[static_cast<std::size_t>(e)].e = static_cast<std::uint8_t>(e);
        for (int i = 0; i < 16; ++i) blocks[static_cast<std::size_t>(e)].qs[i] = static_cast<unsigned char>(i * 17);
    }
    std::vector<float> out(256 * 32);
    kernel::cpu::avx2_decoder<mxfp4>::run(blocks.data(), 256, out.data());
    CHECK(same(out, decoded<mxfp4>(blocks)));
    std::vector<f16::block> halves(65536);
    for (std::size_t i = 0; i < 65536; ++i) halves[i].value.set(static_cast<std::uint16_t>(i));
    std::vector<float> floats(65536);
    kernel::cpu::avx2_decoder<f16>::run(halves.data(), 65536, floats.data());
    CHECK(same(floats, decoded<f16>(halves)));
}

#endif
