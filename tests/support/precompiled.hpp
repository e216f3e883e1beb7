// What the tests have in common, compiled once: headers, and the templates that nearly all of them use, which
// tests/instances/ instantiates. A test still includes what it uses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tern/tern.hpp>

#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/device/worker_team.hpp>
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/pinned_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/residency/scheduler.hpp>
#include <tern/residency/store.hpp>

#include "support/instances.hpp"
TERN_TEST_MEMORY(extern template)
TERN_TEST_RESIDENCY(extern template)
TERN_TEST_DEVICES(extern template)
TERN_TEST_CACHES(extern template)
TERN_TEST_RUNTIME(extern template)
