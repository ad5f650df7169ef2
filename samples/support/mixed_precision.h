#pragma once

#include <string>

#include <sluice/sluice.h>

#include "samples/support/flags.h"

namespace samples {

/// The flag --amp: what products and convolutions of training and judging compute in. Weights stay float32.
struct MixedPrecision {
  std::string type = "off";  // or bfloat16, or float16

  void add_to(CommandLine& command);
  /// Around forward and loss: the thread's calls are cast as long as it lives.
  sluice::amp::AutocastScope autocast() const;
  /// Before the first step: in float16 gradients are those of losses that the trainer's own scaler scales.
  void prepare(sluice::gluon::Trainer& trainer) const;
};

/// What backward is to begin at: the losses, scaled where the trainer has a scaler.
sluice::NDArray to_go_back_from(const sluice::NDArray& losses, const sluice::gluon::Trainer& trainer);

}  // namespace samples
