#include <cstdint>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/nn/sync_batch_norm.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice::gluon::nn {

namespace {

DType statistics_type(DType x) {
  return x == float64 ? float64 : float32;
}

Shape axes_beside(int channels, int ndim) {
  Shape others;
  for (int axis = 0; axis < ndim; ++axis) {
    if (axis != channels)
      others.push_back(axis);
  }
  return others;
}

}  // namespace

/// Of each channel, over all elements of all parts, on the device of the parameters.
struct SyncBatchNorm::Moments {
  NDArray mean, variance;
};

SyncBatchNorm::SyncBatchNorm(std::size_t num_devices, BatchNormOptions options)
    : BatchNorm(std::move(options)), num_devices_(num_devices) {
  require(num_devices >= 1, [] { return message("nn::SyncBatchNorm: num_devices = 0 must be >= 1"); });
  note_options(OptionNotes().add("num_devices", num_devices));
}

void SyncBatchNorm::check(std::span<const NDArray> parts) const {
  const NDArray& first = parts[0];
  require<DTypeError>(
      is_floating(first.dtype()), [&] { return message("SyncBatchNorm: cannot normalise ", first.dtype()); });
  const int axis = normal_axis(settings_.axis, first.ndim(), "SyncBatchNorm");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const NDArray& part = parts[i];
    require<ShapeError>(part.ndim() == first.ndim() && part.shape()[axis] == first.shape()[axis], [&] {
      return message(
          "SyncBatchNorm: part ",
          i,
          " of shape ",
          part.shape(),
          " has not the ",
          first.shape()[axis],
          " channels on axis ",
          axis,
          " that part 0 of shape ",
          first.shape(),
          " has");
    });
    require<DTypeError>(part.dtype() == first.dtype(), [&] {
      return message("SyncBatchNorm: part ", i, " is ", part.dtype(), ", part 0 ", first.dtype());
    });
  }
}

// By parts (Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983): what squares would cancel
// stays exact where means are far from 0.
SyncBatchNorm::Moments SyncBatchNorm::moments_of(std::span<const NDArray> parts) const {
  const Device home = gamma_.data().device();
  std::int64_t all = 0;
  for (const NDArray& part : parts)
    all += part.size();
  std::vector<double> shares;
  std::vector<Moments> each;
  for (const NDArray& part : parts) {
    if (part.size() == 0)
      continue;
    const NDArray wide = part.astype(statistics_type(part.dtype()));
    const Shape others = axes_beside(normal_axis(settings_.axis, part.ndim(), "SyncBatchNorm"), part.ndim());
    const bool alone = others.ndim() == 0;
    each.push_back(
        {(alone ? wide : mean(wide, others)).to(home), (alone ? wide * 0 : variance(wide, others)).to(home)});
    shares.push_back(static_cast<double>(part.size()) / static_cast<double>(all));
  }
  Moments joined;
  for (std::size_t i = 0; i < each.size(); ++i) {
    const NDArray share = each[i].mean * shares[i];
    joined.mean = i == 0 ? share : joined.mean + share;
  }
  for (std::size_t i = 0; i < each.size(); ++i) {
    const NDArray apart = each[i].mean - joined.mean;
    const NDArray share = (each[i].variance + apart * apart) * shares[i];
    joined.variance = i == 0 ? share : joined.variance + share;
  }
  return joined;
}

NDArray SyncBatchNorm::normalised(const NDArray& part, const Moments& moments) const {
  Shape along = Shape::filled(part.ndim(), 1);
  along[normal_axis(settings_.axis, part.ndim(), "SyncBatchNorm")] = -1;
  const auto there = [&](const NDArray& of_channels) { return of_channels.to(part.device()).reshape(along); };
  NDArray scale = rsqrt(moments.variance + settings_.eps);
  if (!settings_.fix_gamma)
    scale = scale * gamma_.data();
  const NDArray centred = part.astype(statistics_type(part.dtype())) - there(moments.mean);
  return (centred * there(scale) + there(beta_.data())).astype(part.dtype());
}

NDArray SyncBatchNorm::by_itself(const NDArray& part) const {
  const auto there = [&](const Parameter& parameter) { return parameter.data().to(part.device()); };
  return batch_norm(part, there(gamma_), there(beta_), there(running_mean_), there(running_var_), settings_);
}

// By one task each that reads what it writes: what an error of a part keeps from running leaves statistics whole.
void SyncBatchNorm::follow(const Moments& batch) const {
  const autograd::PauseScope unrecorded(true);
  const auto step = [&](const Parameter& running, const NDArray& to) {
    return (to - running.data()) * (1 - settings_.momentum);
  };
  const NDArray of_mean = step(running_mean_, batch.mean), of_variance = step(running_var_, batch.variance);
  NDArray mean = running_mean_.data(), variance = running_var_.data();
  mean += of_mean;
  variance += of_variance;
}

Arrays SyncBatchNorm::forward_all(std::span<const NDArray> parts) const {
  const OriginScope here(call_site());
  const bool joins = autograd::is_training() && !settings_.use_global_stats;
  require(!parts.empty() && (!joins || parts.size() == num_devices_), [&] {
    return message(
        "SyncBatchNorm: has ",
        num_devices_,
        " replicas, but ",
        parts.size(),
        " parts came: in training all parts of a batch are given in one call");
  });
  check(parts);
  complete(parts[0]);
  std::int64_t elements = 0;
  for (const NDArray& part : parts)
    elements += part.size();
  Arrays results;
  const bool is_plain = parts.size() == 1 && parts[0].device() == gamma_.data().device();
  if (!joins || is_plain || elements == 0) {
    for (const NDArray& part : parts)
      results.push_back(by_itself(part));
    return results;
  }
  const Moments moments = moments_of(parts);
  for (const NDArray& part : parts)
    results.push_back(normalised(part, moments));
  follow(moments);
  return results;
}

}  // namespace sluice::gluon::nn
