#include "samples/support/loss_watch.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include <fmt/format.h>

namespace samples {

using namespace sluice;

namespace {
constexpr std::size_t k_seen_late = 2;  // values looked at that stay unread
}

// A CPU step holds its memory until it ran; a GPU's is reused in the order of its stream.
LossWatch::LossWatch(Device device, int print) : ahead_(device.is_gpu() ? 32 : 2), print_(print) {}

void LossWatch::begin_epoch(std::int64_t steps) {
  interval_ = std::clamp<std::int64_t>(steps / 20, 1, 10);
  step_in_epoch_ = losses_ = images_ = 0;
  loss_sum_ = hits_sum_ = 0;
}

void LossWatch::step(const NDArray& losses, const NDArray& labels, const NDArray& predictions, Progress& progress) {
  running_.push_back(losses);
  if (running_.size() > ahead_) {
    running_.front().wait_to_read();
    running_.pop_front();
  }
  const bool print = step_ < print_;
  if (step_in_epoch_ % interval_ == 0 || print) {
    const NDArray guesses = argmax(predictions, 1).astype(labels.dtype());
    seen_.push_back({step_, print, mean(losses), sum(equal(guesses, labels)), labels.size()});
    if (seen_.size() > k_seen_late)
      read_oldest(progress);
  }
  ++step_;
  ++step_in_epoch_;
}

void LossWatch::read_oldest(Progress& progress) {
  const Seen seen = std::move(seen_.front());
  seen_.pop_front();
  const auto loss = static_cast<double>(seen.mean_loss.item<float>());
  loss_sum_ += loss;
  hits_sum_ += static_cast<double>(seen.hits.item<std::int64_t>());
  ++losses_;
  images_ += seen.images;
  progress.show(loss_sum_ / static_cast<double>(losses_), hits_sum_ / static_cast<double>(images_));
  if (seen.print) {
    progress.clear_line();
    fmt::print("loss {} {:.9g}\n", seen.step, loss);
    std::fflush(stdout);
  }
}

void LossWatch::finish(Progress& progress) {
  while (!seen_.empty())
    read_oldest(progress);
  while (!running_.empty()) {
    running_.front().wait_to_read();
    running_.pop_front();
  }
}

}  // namespace samples
