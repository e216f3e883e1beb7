#include <doctest/doctest.h>

#include "support.hpp"
#include <tern/kernel/embed.hpp>

using namespace tern;
using namespace tern::test;

TEST_CASE("kernel/embed: rows by id, scaled, in a user's format") {
    const signed char table[] = {2, 4, 6, 8, -2, -4, -6, -8, 1, 0, 0, 1};
    const std::int32_t ids[] = {2, 0, 2};
    std::vector<float> out(3 * 5, 7);
    run<kernel::embed, halves>({bytes_of(table), 3, 4, ids, 3, 2.0f, out.data(), 5});
    CHECK(out == std::vector<float>{1, 0, 0, 1, 7, 2, 4, 6, 8, 7, 1, 0, 0, 1, 7});
}

TEST_CASE("kernel/embed: a part of the tokens, and none") {
    const float table[] = {1, 2, 3, 4, 5, 6};
    const std::int32_t ids[] = {1, 0};
    std::vector<float> out(6, 7);
    const kernel::embed::args args{bytes_of(table), 2, 3, ids, 2, 1.0f, out.data(), 3};
    kernel::embed::reference<f32>(args, 1, 2);
    CHECK(out == std::vector<float>{7, 7, 7, 1, 2, 3});
    run<kernel::embed, f32>({bytes_of(table), 2, 3, ids, 0, 1.0f, nullptr, 3});
}
