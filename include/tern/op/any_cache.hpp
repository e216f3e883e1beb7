// A key-value cache of any type behind one interface.
#pragma once

#include <concepts>
#include <cstddef>

#include <tern/device/device.hpp>
#include <tern/op/kv_cache.hpp>

namespace tern {

/// Refers to a cache, which must outlive it, and is one itself. A decoder that is compiled for this takes every cache.
///
///     tern::paged_cache pages{ram, shape};
///     tern::any_cache cache{pages};
class any_cache {
public:
    template <kv_cache C>
        requires(!std::same_as<C, any_cache>)
    explicit any_cache(C& cache) noexcept : object_(&cache), table_(&table_of<C>) {}

    kv_shape shape() const { return table_->shape(object_); }
    std::size_t length(std::size_t sequence) const { return table_->length(object_, sequence); }
    void reserve(const batch& b) { table_->reserve(object_, b); }
    void append(std::size_t layer, const batch& b, const float* k, const float* v) {
        table_->append(object_, layer, b, k, v);
    }
    kernel::sequence_pages pages(std::size_t layer, std::size_t sequence) const {
        return table_->pages(object_, layer, sequence);
    }
    void truncate(std::size_t sequence, std::size_t length) { table_->truncate(object_, sequence, length); }
    void copy(std::size_t from, std::size_t to) { table_->copy(object_, from, to); }
    /// Null where the cache does not say.
    device* computes_on(std::size_t layer) const { return table_->computes_on(object_, layer); }

private:
    struct functions {
        kv_shape (*shape)(const void*);
        std::size_t (*length)(const void*, std::size_t);
        void (*reserve)(void*, const batch&);
        void (*append)(void*, std::size_t, const batch&, const float*, const float*);
        kernel::sequence_pages (*pages)(const void*, std::size_t, std::size_t);
        void (*truncate)(void*, std::size_t, std::size_t);
        void (*copy)(void*, std::size_t, std::size_t);
        device* (*computes_on)(const void*, std::size_t);
    };

    template <class C> static C& as(void* object) noexcept { return *static_cast<C*>(object); }
    template <class C> static const C& as(const void* object) noexcept { return *static_cast<const C*>(object); }

    template <class C> static device* keeper_of([[maybe_unused]] const void* c, [[maybe_unused]] std::size_t layer) {
        if constexpr (placed_cache<C>)
            return as<C>(c).computes_on(layer);
        else
            return nullptr;
    }

    template <class C>
    static constexpr functions table_of{
        [](const void* c) -> kv_shape { return as<C>(c).shape(); },
        [](const void* c, std::size_t s) -> std::size_t { return as<C>(c).length(s); },
        [](void* c, const batch& b) { as<C>(c).reserve(b); },
        [](void* c, std::size_t layer, const batch& b, const float* k, const float* v) {
            as<C>(c).append(layer, b, k, v);
        },
        [](const void* c, std::size_t layer, std::size_t s) { return as<C>(c).pages(layer, s); },
        [](void* c, std::size_t s, std::size_t length) { as<C>(c).truncate(s, length); },
        [](void* c, std::size_t from, std::size_t to) { as<C>(c).copy(from, to); },
        &keeper_of<C>};

    void* object_;
    const functions* table_;
};

static_assert(kv_cache<any_cache>);

} // namespace tern
