#pragma once

#include <sluice/engine/export.h>

namespace sluice {

/// How convolutions and matrix products on a GPU choose among the algorithms of their library.
enum class Autotune : unsigned char {
  off,         // what the library's own prediction puts first
  first_use,   // the quickest of the first few predictions, tried when a shape is first seen
  exhaustive,  // the quickest of all that the library offers: some dozen plans of a convolution; of a product as many
               // configurations of its algorithms as can be tried in two seconds
};

/// For the whole process and every operation that starts after this call. Not called: SLUICE_AUTOTUNE in the
/// environment, "off", "first_use" or "exhaustive"; neither: off. A trial takes milliseconds to two seconds a shape and
/// keeps the thread that issues GPU work; what it chose is kept in memory and, unless SLUICE_PLAN_CACHE is set and
/// empty, in a file of that folder (default: sluice in XDG_CACHE_HOME, else in ~/.cache), so that the next process
/// chooses the same, with the same bits. Without a file two processes may choose differently, and then differ in last
/// bits. Peers: torch.backends.cudnn.benchmark, MXNET_CUDNN_AUTOTUNE_DEFAULT.
SLUICE_API void set_autotune(Autotune how) noexcept;
/// Throws ValueError, once asked for and not set, for another text in SLUICE_AUTOTUNE.
SLUICE_API Autotune autotune();

}  // namespace sluice
