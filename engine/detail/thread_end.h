#pragma once

#include <cxxabi.h>

// The library or program that the code is part of, as the C++ ABI names it: it stays loaded until its threads' ends
// ran.
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace sluice::detail {

/// Has call(object) run when this thread ends, after what is asked for later: what a compiler emits for a thread-local
/// object with a destructor, without the 16 thread-local bytes by which it knows that it asked (static_tls.h).
inline void at_thread_end(void (*call)(void*), void* object) noexcept {
  __cxxabiv1::__cxa_thread_atexit(call, object, &__dso_handle);
}

}  // namespace sluice::detail
