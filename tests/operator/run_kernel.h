#pragma once

// Runs a kernel's insides in a task of their own, on the memory of given arrays: for tests that compare two ways of
// doing the same.
#include <functional>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

namespace sluice::test {

/// Pushes body(queue) as a task that writes all `arrays`, with a library's team; does not wait.
inline void run_kernel(const std::vector<NDArray>& arrays, std::function<void(const Queue&)> body) {
  Task task{.name = "test kernel", .device = arrays.front().device(), .threads = 64};
  for (const NDArray& array : arrays)
    task.access.push_back(write(array.object()->buffer->var()));
  Engine::current().push(task, [body](Queue queue) { body(queue); });
}

inline void* data_of(const NDArray& array) {
  return array.object()->data();
}

}  // namespace sluice::test
