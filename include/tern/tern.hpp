// tern: a library for heterogeneous tensor execution. This header brings all that runs on the host.
//
// The plain kernels come with it. For the fast ones include <tern/cpu.hpp> in one source file, or link
// tern::cpu_kernels. <tern/file/gguf_writer.hpp>; opening any model file, with all decoders compiled, is in
// <tern/model/open_decoder.hpp>.
#pragma once

#include <tern/async/event.hpp>
#include <tern/async/run_loop.hpp>
#include <tern/async/scope.hpp>
#include <tern/async/sync_wait.hpp>
#include <tern/async/task.hpp>
#include <tern/async/when_all.hpp>
#include <tern/base/error.hpp>
#include <tern/base/units.hpp>
#include <tern/cost/machine.hpp>
#include <tern/device/cpu.hpp>
#include <tern/device/emulated.hpp>
#include <tern/format/formats.hpp>
#include <tern/kernel/slot.hpp>
#include <tern/memory/arena.hpp>
#include <tern/memory/tier.hpp>
#include <tern/model/decoder.hpp>
#include <tern/model/gemma3.hpp>
#include <tern/model/generate.hpp>
#include <tern/model/llama.hpp>
#include <tern/model/qwen2.hpp>
#include <tern/model/qwen3.hpp>
#include <tern/model/runtime.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/expert_offload.hpp>
#include <tern/plan/explain.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/plan/layer_split.hpp>
#include <tern/plan/layer_stream.hpp>
#include <tern/residency/store.hpp>
#include <tern/tensor/tensor.hpp>
#include <tern/transfer/blocking.hpp>
#include <tern/transfer/in_place.hpp>
#include <tern/transfer/prefetched.hpp>
#include <tern/transfer/repacked.hpp>
#include <tern/transfer/staged.hpp>
