#pragma once

#include <sluice/engine/engine.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::test {

/// Products and convolutions of float32 in TF32 while it lives.
struct WithTf32 {
  WithTf32() { set_float32_precision("high"); }
  WithTf32(const WithTf32&) = delete;
  WithTf32& operator=(const WithTf32&) = delete;
  ~WithTf32() {
    Engine::current().wait_all();
    set_float32_precision("highest");
  }
};

}  // namespace sluice::test
