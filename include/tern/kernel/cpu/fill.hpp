// Puts the fast kernels into the table.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tern/format/formats.hpp>
#include <tern/kernel/attention.hpp>
#include <tern/kernel/cpu/attention.hpp>
#include <tern/kernel/cpu/elementwise.hpp>
#include <tern/kernel/cpu/features.hpp>
#include <tern/kernel/cpu/linear.hpp>
#include <tern/kernel/cpu/linear_q8.hpp>
#include <tern/kernel/cpu/quantize_q8.hpp>
#include <tern/kernel/cpu/rms_norm.hpp>
#include <tern/kernel/cpu/rope.hpp>
#include <tern/kernel/elementwise.hpp>
#include <tern/kernel/embed.hpp>
#include <tern/kernel/linear.hpp>
#include <tern/kernel/linear_q8.hpp>
#include <tern/kernel/quantize_q8.hpp>
#include <tern/kernel/rms_norm.hpp>
#include <tern/kernel/rope.hpp>
#include <tern/kernel/router.hpp>

namespace tern::kernel::cpu {

namespace detail {

/// Sets a slot to the reference or to the fast function; the entries live as long as the program.
template <class Op, class Format, host_kernel<Op> Fast> void choose(instruction_set set) {
    static constexpr kernel_entry<Op> fast{Fast, "avx2"};
    slot<Op, Format>.set(set == instruction_set::avx2 ? fast : kernel::detail::reference_entry<Op, Format>);
}

} // namespace detail

/// Puts a format on the fast path: its decode function is compiled for the chosen instructions and inlined into the
/// kernels of linear, rms_norm and embed. Throws config_error where TERN_CPU has an unknown value.
///
///     tern::kernel::cpu::use<my_format>();
template <format F> void use(instruction_set set = chosen_instructions()) {
#if defined(__x86_64__)
    detail::choose<linear, F, &linear_avx2<F>>(set);
    if constexpr (has_avx2_form<F>) detail::choose<linear_q8, F, &linear_q8_avx2<F>>(set);
    detail::choose<rms_norm, F, &rms_norm_avx2<F>>(set);
    detail::choose<embed, F, &embed_avx2<F>>(set);
#else
    static_cast<void>(set);
#endif
}

/// Fills the slots of all operators that have a fast kernel, for all formats that tern brings. With the set `reference`
/// the references come back.
inline void fill(instruction_set set = chosen_instructions()) {
    all_formats::for_each([set]<class F>(std::type_identity<F>) { use<F>(set); });
#if defined(__x86_64__)
    detail::choose<quantize_q8, no_format, &quantize_q8_avx2>(set);
    detail::choose<attention, no_format, &attention_avx2>(set);
    detail::choose<gated, no_format, &gated_avx2>(set);
    detail::choose<soft_cap, no_format, &soft_cap_avx2>(set);
    detail::choose<add, no_format, &add_avx2>(set);
    detail::choose<scale_rows, no_format, &scale_rows_avx2>(set);
    detail::choose<combine, no_format, &combine_avx2>(set);
    detail::choose<rope, no_format, &rope_avx2>(set);
#endif
}

/// Fills the table when the program starts. Where TERN_CPU has an unknown value the references stay, a line on standard
/// error says so, and describe_paths() throws.
inline bool fill_at_start() noexcept {
    try {
        fill();
        return true;
    } catch (const error& e) {
        std::fprintf(stderr, "tern: %s; the plain kernels run\n", e.what());
        return false;
    }
}

} // namespace tern::kernel::cpu

namespace tern::kernel {

/// Which function a slot holds.
struct path_info {
    std::string_view op;
    std::string_view format;
    std::string_view path;
};

template <kernel_operator Op, class Format = no_format> path_info path_of() {
    return {Op::name, Format::name, slot<Op, Format>.get().path};
}

/// The path of each operator on the host, for every format that tern brings. Throws config_error where TERN_CPU has an
/// unknown value.
inline std::vector<path_info> describe_paths() {
    static_cast<void>(cpu::chosen_instructions());
    std::vector<path_info> out;
    all_formats::for_each([&out]<class F>(std::type_identity<F>) {
        out.push_back(path_of<linear, F>());
        if constexpr (has_integer_form<F>) out.push_back(path_of<linear_q8, F>());
        out.push_back(path_of<rms_norm, F>());
        out.push_back(path_of<embed, F>());
    });
    const path_info plain[] = {path_of<attention>(),   path_of<gated>(),           path_of<soft_cap>(),
                               path_of<add>(),         path_of<scale_rows>(),      path_of<rope>(),
                               path_of<rope_angles>(), path_of<route>(),           path_of<combine>(),
                               path_of<gather_rows>(), path_of<group_by_expert>(), path_of<quantize_q8>()};
    for (const path_info& path : plain) out.push_back(path);
    return out;
}

} // namespace tern::kernel
