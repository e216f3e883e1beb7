// A compiler without coroutines gets one sentence, and can read files all the same.
// expect: tern/async needs coroutines
#ifndef TERN_PASS
#undef __cpp_impl_coroutine
#endif
#include <tern/file/gguf.hpp>
#include <tern/file/safetensors.hpp>
#ifdef __cpp_lib_coroutine
#error "the readers include <coroutine>"
#endif
#include <tern/async/task.hpp>

int main() {
    tern::task<int>* none = nullptr;
    return none ? static_cast<int>(sizeof(*none)) : 0;
}
