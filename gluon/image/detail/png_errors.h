#pragma once

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <utility>

// Included by files of builds with libpng alone.
#include <png.h>

namespace sluice::image::detail {

/// How libpng, which has no way back from an error of its own, comes back to us.
struct PngErrors {
  std::jmp_buf back = {};
  char text[128] = {};
  bool out_of_memory = false;
};

inline void png_failed(png_structp png, png_const_charp text) {
  auto& errors = *static_cast<PngErrors*>(png_get_error_ptr(png));
  std::snprintf(errors.text, sizeof errors.text, "%s", text);
  std::longjmp(errors.back, 1);
}
inline void png_warned(png_structp, png_const_charp) {}

// For libpng and, through it, zlib: the error that follows where there is none is of memory, not of the file.
inline png_voidp png_take(png_structp png, png_alloc_size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr)
    static_cast<PngErrors*>(png_get_mem_ptr(png))->out_of_memory = true;
  return memory;
}
inline void png_give(png_structp, png_voidp memory) {
  std::free(memory);
}

/// Runs calls of libpng; false where it gave up, errors.text says why. What `call` makes itself must need no
/// destructor: the way back skips those.
template <class Call>
bool guarded(PngErrors& errors, const Call& call) {
  if (setjmp(errors.back) != 0)
    return false;
  call();
  return true;
}

}  // namespace sluice::image::detail
