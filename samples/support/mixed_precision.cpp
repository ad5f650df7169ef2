#include "samples/support/mixed_precision.h"

#include <optional>

namespace samples {

using namespace sluice;

void MixedPrecision::add_to(CommandLine& command) {
  command.add_option("--amp", type, "Compute in bfloat16 or float16 where that is harmless; weights stay float32")
      .one_of({"off", "bfloat16", "float16"})
      .with_default();
}

amp::AutocastScope MixedPrecision::autocast() const {
  return amp::AutocastScope(type == "off" ? std::nullopt : std::optional(type == "float16" ? float16 : bfloat16));
}

void MixedPrecision::prepare(gluon::Trainer& trainer) const {
  if (type == "float16")
    amp::init_trainer(trainer);
}

NDArray to_go_back_from(const NDArray& losses, const gluon::Trainer& trainer) {
  return trainer.scaler() == nullptr ? losses : amp::scale_loss(losses, trainer);
}

}  // namespace samples
