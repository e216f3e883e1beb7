// Defines TERN_TEST_SANITIZED where AddressSanitizer or ThreadSanitizer is on: their runtimes end the process where a
// thread cannot start, and make mlock a sham.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TERN_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TERN_TEST_SANITIZED
#endif
#endif
