#include <fmt/format.h>

#include "samples/extension/parts.h"

namespace samples {

void legacy_stream() {
  fmt::print("legacy_stream: left out, it needs a build with CUDA\n");
}

}  // namespace samples
