#pragma once

// What the C interface is made of: handles as arrays, exceptions as statuses.
#include <cstddef>
#include <span>
#include <utility>

#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/c_api/c_api.h>
#include <sluice/operator/operator.h>

namespace sluice::c_api {

/// Keeps the message of the exception that is being handled for the calling thread; returns its status.
sluice_status note_exception(const char* function) noexcept;

/// Runs f(); what it throws becomes a status, and a message that begins with the function.
template <class F>
sluice_status guarded(const char* function, const F& f) noexcept {
  try {
    f();
    return SLUICE_OK;
  } catch (...) {
    return note_exception(function);
  }
}

/// Throws ValueError: "`what` is NULL".
[[noreturn]] void refuse_null(const char* what);
inline void check_given(const char* what, const void* pointer) {
  if (pointer == nullptr)
    refuse_null(what);
}

// A handle is the array object itself, of which it holds one count.
inline detail::ArrayObject* object_of(sluice_array_t handle) noexcept {
  return reinterpret_cast<detail::ArrayObject*>(handle);
}
inline sluice_array_t new_handle(const NDArray& array) noexcept {
  if (array.defined())
    detail::retain(array.object());
  return reinterpret_cast<sluice_array_t>(array.object());
}
/// An undefined array for NULL.
inline NDArray optional_array(sluice_array_t handle) noexcept {
  if (handle != nullptr)
    detail::retain(object_of(handle));
  return NDArray(object_of(handle));
}
/// Throws ValueError for NULL.
inline NDArray array_of(sluice_array_t handle) {
  check_given("the array", handle);
  return optional_array(handle);
}

/// Throws ValueError for a NULL list of some, and for a NULL among them.
Arrays arrays_of(const sluice_array_t* handles, std::size_t count);

}  // namespace sluice::c_api
