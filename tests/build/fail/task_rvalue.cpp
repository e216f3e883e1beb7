// expect: a task gives a value, an lvalue reference or void
#include <tern/async/task.hpp>

#ifdef TERN_PASS
using result = int&;
#else
using result = int&&;
#endif

int main() {
    tern::task<result>* none = nullptr;
    return none ? static_cast<int>(sizeof(*none)) : 0;
}
