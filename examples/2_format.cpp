// A format of one's own: a struct with a block and a decode function. It works in every operator at once, through the
// plain kernels, and gets faster by putting one function into the table.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tern/op/linear.hpp>
#include <tern/tern.hpp>

using namespace tern::literals;

// Signs alone, with one scale for 64 numbers: 12 bytes.
struct signs {
    static constexpr std::string_view name = "signs";
    static constexpr std::size_t block_size = 64;
    struct block {
        tern::unaligned<float> scale;
        unsigned char bits[8];
    };
    TERN_HOST_DEVICE static void decode(const block& b, float* out) noexcept {
        const float scale = b.scale.get();
        for (int i = 0; i < 64; ++i) out[i] = (b.bits[i / 8] >> (i % 8) & 1) != 0 ? -scale : scale;
    }
    static void encode(const float* in, block& b) noexcept {
        float sum = 0;
        b = {};
        for (int i = 0; i < 64; ++i) {
            sum += std::fabs(in[i]);
            if (in[i] < 0) b.bits[i / 8] = static_cast<unsigned char>(b.bits[i / 8] | 1 << (i % 8));
        }
        b.scale.set(sum / 64);
    }
};
static_assert(tern::format<signs> && tern::format_encodable<signs>);

using weight = tern::tensor<tern::formats<signs>, tern::tiers<tern::pageable>>;

// A kernel for it that never multiplies by a decoded weight: it adds or subtracts.
void fast_linear(const tern::kernel::linear::args& a, std::size_t begin, std::size_t end) {
    const auto* blocks = reinterpret_cast<const signs::block*>(a.weights);
    for (std::size_t r = begin; r < end; ++r)
        for (std::size_t t = 0; t < a.tokens; ++t) {
            float y = a.bias != nullptr ? a.bias[r] : 0;
            for (std::size_t b = 0; b < a.cols / 64; ++b) {
                const signs::block& block = blocks[r * (a.cols / 64) + b];
                float sum = 0;
                for (int i = 0; i < 64; ++i) {
                    const float x = a.x[t * a.x_stride + b * 64 + static_cast<std::size_t>(i)];
                    sum += (block.bits[i / 8] >> (i % 8) & 1) != 0 ? -x : x;
                }
                y += block.scale.get() * sum;
            }
            a.y[t * a.y_stride + r] = y;
        }
}

int main() {
    tern::heap_arena ram(1_MiB);
    tern::run_loop loop;
    tern::cpu_device cpu(ram, 2);
    tern::context ctx(loop, cpu);

    std::vector<float> values(4 * 128);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? -0.5f : 0.5f;
    const weight w = weight::own<signs>(ram, values, {.rows = 4, .cols = 128}, "w");
    tern::activation x = ctx.make(cpu, 1, 128);
    for (int i = 0; i < 128; ++i) x.data()[i] = static_cast<float>(i % 5);

    auto& slot = tern::kernel::slot<tern::kernel::linear, signs>;
    for (int round = 0; round < 2; ++round) {
        const tern::activation y = loop.run(tern::linear(ctx, x, w));
        std::printf("%-9s y = %g %g %g %g\n", slot.get().path, double(y.data()[0]), double(y.data()[1]),
                    double(y.data()[2]), double(y.data()[3]));
        static constexpr tern::kernel::kernel_entry<tern::kernel::linear> mine{&fast_linear, "mine"};
        slot.set(mine);
    }
}
