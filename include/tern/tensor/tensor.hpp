// The tensor: a weight whose type says how it may be encoded, in which memories it may live, and how it moves.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/checked.hpp>
#include <tern/base/error.hpp>
#include <tern/format/formats.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/tier.hpp>
#include <tern/tensor/lease.hpp>
#include <tern/tensor/shape.hpp>
#include <tern/tensor/visit.hpp>
#include <tern/transfer/in_place.hpp>

namespace tern {

/// A weight of shape [experts, rows, cols].
///
/// Formats: formats<...>, what its numbers may be encoded in; which one is known when it is made, and `visit` picks it
///          once per call. A list of one is decided at compile time.
/// Tiers:   tiers<...>, where a placement may put it.
/// Transfer: how its bytes move.
///
/// A tensor refers to slices of a lender, which must outlive it, or owns its bytes (`own`). Copies share both.
///
///     using weight = tern::tensor<tern::formats<tern::q4_0, tern::f32>, tern::tiers<tern::vram, tern::mapped>,
///                                 tern::staged<4_MiB, 2>>;
template <class Formats, class Tiers, class Transfer = in_place> class tensor {
    static_assert(transfer_strategy<Transfer>,
                  "tern: the transfer of a tensor needs a `name` and a static `move(transfer_request)` that returns "
                  "task<void>");

public:
    using formats_type = Formats;
    using tiers_type = Tiers;
    using transfer_type = Transfer;

    /// Empty: no tensor. Using it throws.
    tensor() = default;

    /// A tensor over slices [first, first + shape.experts) of a lender. `format` is an index into Formats.
    tensor(lender& from, slice_id first, std::size_t format, tensor_shape shape, std::string name)
        : lender_(&from), first_(first), format_(format), shape_(shape), name_(std::move(name)) {}

    /// A tensor that owns its bytes in `ram`, encoded from floats [experts, rows, cols].
    ///
    ///     auto w = tern::tensor<tern::formats<tern::q8_0>, tern::tiers<tern::pageable>>::own<tern::q8_0>(ram, x, {4,
    ///     64});
    template <format F>
        requires(format_encodable<F> && Formats::template contains<F> && Tiers::template contains<pageable>)
    static tensor own(arena& ram, std::span<const float> values, tensor_shape shape, std::string name = "tensor") {
        if (values.size() != shape.count())
            throw shape_error("needs " + std::to_string(shape.count()) + " values, got " +
                                  std::to_string(values.size()),
                              {.tensor = name});
        tensor t;
        const std::uint64_t size = checked_mul<std::uint64_t>(row_bytes<F>(shape.cols), shape.rows * shape.experts);
        t.owned_ = std::make_shared<allocation>(ram.allocate({size}, name));
        for (std::size_t i = 0; i < values.size() / F::block_size; ++i) {
            typename F::block block;
            F::encode(values.data() + i * F::block_size, block);
            std::memcpy(t.owned_->data() + i * sizeof block, &block, sizeof block);
        }
        t.format_ = Formats::template index_of<F>;
        t.shape_ = shape;
        t.name_ = std::move(name);
        return t;
    }

    explicit operator bool() const noexcept { return lender_ != nullptr || owned_ != nullptr; }
    const std::string& name() const noexcept { return name_; }
    const tensor_shape& shape() const noexcept { return shape_; }
    std::size_t rows() const noexcept { return shape_.rows; }
    std::size_t cols() const noexcept { return shape_.cols; }
    std::size_t experts() const noexcept { return shape_.experts; }
    std::size_t format_index() const noexcept { return Formats::size == 1 ? 0 : format_; }
    slice_id slice(std::size_t expert = 0) const noexcept { return first_ + static_cast<slice_id>(expert); }
    bool owns() const noexcept { return owned_ != nullptr; }

    /// Name, block and bytes of its format.
    format_info format() const {
        return visit([]<tern::format F>() { return info_of<F>; });
    }

    /// Bytes of one expert's matrix.
    bytes slice_bytes() const {
        return visit([this]<tern::format F>() {
            return bytes{checked_mul<std::uint64_t>(row_bytes<F>(shape_.cols), shape_.rows, "the bytes of a tensor")};
        });
    }

    /// Calls `fn.template operator()<F>()` with the format that this tensor is in: one choice per call, none per
    /// element.
    template <class Fn> decltype(auto) visit(Fn&& fn) const {
        return visit_format<Formats>(format_index(), std::forward<Fn>(fn));
    }

    /// The device that the placement chose, or `otherwise` for a tensor that owns its bytes or is not placed.
    device& computes_on(device& otherwise, std::size_t expert = 0) const {
        device* home = lender_ != nullptr ? lender_->home_of(slice(expert)) : nullptr;
        return home != nullptr ? *home : otherwise;
    }

    /// Tells the lender that experts [first, first + count) will be leased on `on` next, so that they are brought
    /// together and beside other work. Never fails.
    void expect(device& on, std::size_t first, std::size_t count = 1) const noexcept {
        if (lender_ == nullptr) return;
        constexpr std::size_t most = 16; // of one call; a run of neighbours that is longer comes in parts
        slice_id ids[most];
        for (std::size_t done = 0; done < count;) {
            std::size_t n = 0;
            for (; n < most && done < count; ++n, ++done) ids[n] = slice(first + done);
            lender_->expect({ids, n}, on, &Transfer::move);
        }
    }
    /// One expert's bytes in a mapping, wherever the placement has it; null where there is none.
    const std::byte* mapped_bytes(std::size_t expert = 0) const {
        return lender_ != nullptr ? lender_->mapped_bytes(slice(expert)) : nullptr;
    }
    /// The bandwidth at which the lender's copies came to `on` so far.
    bytes_per_second bandwidth_to(device& on) const {
        return lender_ != nullptr ? lender_->bandwidth_to(on) : bytes_per_second{};
    }
    /// Whether a lease on `on` would be given at once.
    bool readable(device& on, std::size_t expert = 0) const {
        return lender_ != nullptr ? lender_->readable(slice(expert), on) : static_cast<bool>(try_lend(on, expert));
    }

    /// Awaitable: a lease of one expert's matrix on a device. Suspends only when bytes have to move.
    auto lend(device& on, std::size_t expert = 0) const {
        struct awaiter {
            const tensor& self;
            device& on;
            std::size_t expert;
            lease ready{};
            std::optional<task<lease>::awaiter> arriving{};

            bool await_ready() {
                ready = self.try_lend(on, expert);
                return static_cast<bool>(ready);
            }
            void await_suspend(std::coroutine_handle<> waiter) {
                arriving.emplace(self.lender_->borrow(self.slice(expert), on, &Transfer::move).operator co_await());
                arriving->await_suspend(waiter);
            }
            lease await_resume() { return arriving ? arriving->await_resume() : std::move(ready); }
        };
        return awaiter{*this, on, expert};
    }

private:
    lease try_lend(device& on, std::size_t expert) const {
        if (expert >= shape_.experts) throw shape_error("has no expert " + std::to_string(expert), {.tensor = name_});
        if (owned_ != nullptr) {
            if (!on.reads({tier_of<pageable>, 0, 0}))
                throw config_error("owns its bytes in pageable memory and cannot be computed on " +
                                       std::string(on.name()) + ": put it under a residency store",
                                   {.tensor = name_});
            return lease(owned_->data() + expert * slice_bytes().count);
        }
        if (lender_ == nullptr) throw config_error("an empty tensor was used");
        return lender_->try_borrow(slice(expert), on);
    }

    lender* lender_ = nullptr;
    slice_id first_ = 0;
    std::size_t format_ = 0;
    tensor_shape shape_{};
    std::string name_{};
    std::shared_ptr<allocation> owned_{};
};

namespace detail {
template <class T> inline constexpr bool is_tensor = false;
template <class F, class T, class S> inline constexpr bool is_tensor<tensor<F, T, S>> = true;
} // namespace detail

/// Any tern::tensor, whatever its lists.
template <class T>
concept weight_tensor = detail::is_tensor<std::remove_cvref_t<T>>;

} // namespace tern
