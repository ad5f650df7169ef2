#include <cstdlib>
#include <new>

#include "samples/stress/gpu.h"

namespace samples::stress {

Memory Memory::plain(std::size_t bytes) {
  void* const made = std::calloc(1, bytes);
  if (made == nullptr)
    throw std::bad_alloc();
  return {made, [](void* old) { std::free(old); }};
}

}  // namespace samples::stress
