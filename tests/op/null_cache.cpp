#include <tern/op/null_cache.hpp>

#include <doctest/doctest.h>

TEST_CASE("op/null_cache: it takes any batch and keeps nothing") {
    tern::null_cache none;
    tern::batch b;
    b.add(1, 500, 9);
    none.reserve(b);
    none.append(3, b, nullptr, nullptr);
    none.truncate(7, 0);
    none.copy(1, 2);
    CHECK(none.length(9) == 0);
    CHECK(none.pages(0, 9).count == 0);
    CHECK(none.shape().layers == 0);
}
