// The templates that nearly all tests use: declared in support/precompiled.hpp, instantiated in instances/.
#pragma once

#define TERN_TEST_MEMORY(instance)                                                                                     \
    instance class tern::slabs<tern::plain_pages>;                                                                     \
    instance class tern::slabs<tern::heap_blocks>;                                                                     \
    instance class tern::basic_region_arena<>;                                                                         \
    instance class tern::basic_heap_arena<>;                                                                           \
    instance class tern::basic_locked_pages<>;                                                                         \
    instance class tern::basic_pinned_arena<>;

#define TERN_TEST_RESIDENCY(instance)                                                                                  \
    instance class tern::detail::copies<void>;                                                                         \
    instance class tern::detail::arrivals<void>;                                                                       \
    instance class tern::basic_residency_store<>;                                                                      \
    instance class tern::basic_scheduler<>;

#define TERN_TEST_DEVICES(instance)                                                                                    \
    instance class tern::basic_worker_team<>;                                                                          \
    instance class tern::basic_cpu_device<>;                                                                           \
    instance class tern::basic_emulated_device<>;

#define TERN_TEST_CACHES(instance)                                                                                     \
    instance class tern::basic_contiguous_cache<>;                                                                     \
    instance class tern::basic_paged_cache<>;

#define TERN_TEST_RUNTIME(instance) instance class tern::basic_runtime<>;
