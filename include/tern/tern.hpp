// tern: a library for heterogeneous tensor execution. This header brings all that runs on the host.
//
// The plain kernels come with it. For the fast ones include <tern/cpu.hpp> in one source file, or link
// tern::cpu_kernels. To keep this header cheap, what programs need once is elsewhere: <tern/model/runtime.hpp> (the
// loop, memories, devices and residency of a program), the policies that stream (<tern/plan/layer_stream.hpp> and its
// neighbours), <tern/transfer/repacked.hpp>, <tern/file/open_checkpoint.hpp>, <tern/file/gguf_writer.hpp>, the
// decoder of GPT-OSS (<tern/model/gpt_oss.hpp>), and <tern/model/open_decoder.hpp> (any model file, with all decoders
// compiled).
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
#include <tern/memory/heap_arena.hpp>
#include <tern/memory/region_arena.hpp>
#include <tern/memory/tier.hpp>
#include <tern/model/decoder.hpp>
#include <tern/model/gemma3.hpp>
#include <tern/model/generate.hpp>
#include <tern/model/llama.hpp>
#include <tern/model/qwen2.hpp>
#include <tern/model/qwen3.hpp>
#include <tern/op/contiguous_cache.hpp>
#include <tern/op/paged_cache.hpp>
#include <tern/plan/all_cpu.hpp>
#include <tern/plan/explain.hpp>
#include <tern/plan/first_fit.hpp>
#include <tern/tensor/tensor.hpp>
#include <tern/transfer/blocking.hpp>
#include <tern/transfer/in_place.hpp>
#include <tern/transfer/staged.hpp>
