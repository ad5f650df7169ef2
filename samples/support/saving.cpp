#include "samples/support/saving.h"

#include <memory>

#include "samples/support/interrupt.h"
#include "samples/support/safe_file.h"

namespace samples {

namespace est = sluice::gluon::estimator;

void Saving::add_to(CommandLine& command) {
  command
      .add_option(
          "--save",
          folder_,
          "Keep checkpoints in this folder; the same command goes on from the newest, to the last bit")
      .value_name("FOLDER")
      .check(a_name());
}

void Saving::begin() const {
  if (!folder_.empty())
    check_folder("--save", folder_);
  catch_interrupts();
}

est::Handlers Saving::handlers(std::int64_t every_batches) const {
  est::Handlers all = est::handlers(stop_when_interrupted());
  if (!folder_.empty())
    all.push_back(std::make_shared<est::CheckpointHandler>(est::CheckpointOptions{
        .folder = folder_,
        .every_epochs = every_batches > 0 ? 0 : 1,
        .every_batches = every_batches,
        .keep_last = 2,
        .existing = est::Existing::resume}));
  return all;
}

void Saving::end_if_interrupted() const {
  samples::end_if_interrupted(
      folder_.empty() ? "nothing was saved (--save FOLDER does)"
                      : "the same command goes on from what is in " + folder_.string());
}

est::StoppingHandler stop_when_interrupted() {
  return est::StoppingHandler({.stop_when = interrupted});
}

}  // namespace samples
