#pragma once

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <utility>

// In this order: the second numbers its codes by the library's version, which the first says. Included by files of
// builds with libjpeg alone.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

namespace sluice::image::detail {

static_assert(
    (JPEG_LIB_VERSION >= 70) == (int{JERR_BAD_CROP_SPEC} < int{JERR_OUT_OF_MEMORY}), "codes of another version");

/// How libjpeg, which has no way back from an error of its own, comes back to us.
struct JpegErrors {
  jpeg_error_mgr manager = {};  // first: libjpeg knows the whole by the address of this
  std::jmp_buf back = {};
  char text[JMSG_LENGTH_MAX] = {};
};

inline jpeg_error_mgr* start_errors(JpegErrors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = [](j_common_ptr codec) {
    auto& mine = *reinterpret_cast<JpegErrors*>(codec->err);
    mine.manager.format_message(codec, mine.text);
    std::longjmp(mine.back, 1);
  };
  errors.manager.output_message = [](j_common_ptr) {};
  return &errors.manager;
}

/// Runs calls of libjpeg; false where it gave up, errors.text says why. What `call` makes itself must need no
/// destructor: the way back skips those.
template <class Call>
bool guarded(JpegErrors& errors, const Call& call) {
  if (setjmp(errors.back) != 0)
    return false;
  call();
  return true;
}

}  // namespace sluice::image::detail
