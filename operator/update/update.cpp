#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/update/rule.h>
#include <sluice/operator/update/update.h>

// These do not go through invoke(): they take any number of arrays of which three in four are written, have no result,
// are never recorded, and one call must stay one task. So they push it themselves.
namespace sluice {

namespace {

using detail::UpdatePiece;
using detail::UpdateWork;
using Handles = std::span<const NDArray>;

// The arrays of all parameters, by their role; states that the rule does not use are empty lists.
struct Parameters {
  const char* op;
  Handles weights;
  Handles grads;
  Handles states[2];
};

void check_count(const char* op, const char* what, std::size_t count, std::size_t weights) {
  require<ValueError>(
      count == weights, [&] { return message(op, ": ", count, " ", what, " for ", weights, " weights"); });
}

void check_array(
    const char* op, const char* what, std::size_t i, const NDArray& array, const NDArray& weight, DType dtype) {
  require<ValueError>(array.defined(), [&] { return message(op, ": ", what, " ", i, " is an undefined NDArray"); });
  require<ShapeError>(array.shape() == weight.shape(), [&] {
    return message(op, ": ", what, " ", i, " has shape ", array.shape(), ", its weight ", weight.shape());
  });
  require<DTypeError>(array.dtype() == dtype, [&] {
    return message(op, ": ", what, " ", i, " is ", array.dtype(), " beside a ", weight.dtype(), " weight, not ", dtype);
  });
}

void check_place(const char* op, const char* what, std::size_t i, const NDArray& array, const NDArray& first) {
  require<DeviceError>(array.device() == first.device(), [&] {
    return message(op, ": ", what, " ", i, " is on ", array.device(), ", weight 0 on ", first.device());
  });
  require<ValueError>(&array.engine() == &first.engine(), [&] {
    return message(op, ": ", what, " ", i, " and weight 0 belong to different engines");
  });
}

// What the step writes: in place, so as it lies.
void check_written(const char* op, const char* what, std::size_t i, const NDArray& array) {
  require<ValueError>(array.is_contiguous(), [&] {
    return message(op, ": ", what, " ", i, " of shape ", array.shape(), " is not contiguous");
  });
  detail::check_in_place(op, array, false);
}

void check_parameter(const Parameters& all, std::size_t i) {
  const NDArray& weight = all.weights[i];
  require<ValueError>(weight.defined(), [&] { return message(all.op, ": weight ", i, " is an undefined NDArray"); });
  require<DTypeError>(is_floating(weight.dtype()), [&] {
    return message(all.op, ": weight ", i, " is ", weight.dtype(), ", not of a floating type");
  });
  check_place(all.op, "weight", i, weight, all.weights[0]);
  check_written(all.op, "weight", i, weight);
  check_array(all.op, "gradient", i, all.grads[i], weight, weight.dtype());
  check_place(all.op, "gradient", i, all.grads[i], weight);
  for (const Handles& states : all.states) {
    if (states.empty())
      continue;
    check_array(all.op, "state", i, states[i], weight, weight.dtype() == float64 ? float64 : float32);
    check_place(all.op, "state", i, states[i], weight);
    check_written(all.op, "state", i, states[i]);
  }
}

// Bytes of an array without gaps, by their first.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
};

Extent extent_of(const NDArray& array) {
  const std::byte* const begin = array.object()->data();
  return {begin, begin + static_cast<std::size_t>(array.size()) * size_of(array.dtype())};
}

// Two threads would write the same elements, or read some while others write them. `grads` are those that are read; of
// its own weight a gradient may be the memory.
void check_distinct(const Parameters& all, Handles grads) {
  std::vector<Extent> written;
  for (const Handles& list : {all.weights, all.states[0], all.states[1]}) {
    for (const NDArray& array : list) {
      if (array.size() > 0)
        written.push_back(extent_of(array));
    }
  }
  const auto before = [](const Extent& a, const Extent& b) { return a.begin < b.begin; };
  std::sort(written.begin(), written.end(), before);
  const auto meet = [](const Extent& a, const Extent& b) { return b.begin < a.end; };
  require<ValueError>(std::adjacent_find(written.begin(), written.end(), meet) == written.end(), [&] {
    return message(all.op, ": two of the weights and states share memory");
  });
  std::size_t next = 0;
  for (const NDArray& weight : all.weights) {
    if (weight.size() == 0)
      continue;
    const Extent grad = extent_of(grads[next++]);
    if (grad.begin == extent_of(weight).begin)
      continue;
    const auto behind = std::lower_bound(written.begin(), written.end(), Extent{grad.end, nullptr}, before);
    require<ValueError>(behind == written.begin() || std::prev(behind)->end <= grad.begin, [&] {
      return message(all.op, ": a gradient shares memory with a weight or state that is not its own");
    });
  }
}

double factor(const char* op, const std::vector<double>& multipliers, std::size_t i, std::size_t count) {
  if (multipliers.empty())
    return 1;
  check_count(op, "multipliers", multipliers.size(), count);
  return multipliers[i];
}

// `learning_rate(i)` is that of parameter i before its multiplier.
template <class Settings, class Rate>
void push_update(
    const Parameters& all,
    const Settings& settings,
    const Rate& learning_rate,
    const detail::UpdateRule<double>& rule,
    SourceLocation site) {
  const std::size_t count = all.weights.size();
  auto work = std::make_unique<UpdateWork>();
  work->rule = rule;
  Task task{.name = TaskName::lasting(all.op)};
  std::vector<NDArray> copies;  // of gradients with gaps; the task's accesses keep their memory
  for (std::size_t i = 0; i < count; ++i) {
    check_parameter(all, i);
    const NDArray& weight = all.weights[i];
    const double rate = learning_rate(i) * factor(all.op, settings.learning_rate_multipliers, i, count);
    const double decay = settings.weight_decay * factor(all.op, settings.weight_decay_multipliers, i, count);
    if (weight.size() == 0)
      continue;
    copies.push_back(all.grads[i].contiguous(site));
    UpdatePiece piece{weight.object()->data(), copies.back().object()->data(), {}, weight.size(), rate, decay};
    piece.dtype = weight.dtype();
    const auto bytes = static_cast<std::uint64_t>(weight.size()) * size_of(weight.dtype());
    task.bytes += 3 * bytes;  // the weight twice
    detail::add_access(task.access, weight, AccessMode::write);
    detail::add_access(task.access, copies.back(), AccessMode::read);
    for (int state = 0; state < 2; ++state) {
      if (all.states[state].empty())
        continue;
      task.bytes += 2 * bytes;
      piece.state[state] = all.states[state][i].object()->data();
      detail::add_access(task.access, all.states[state][i], AccessMode::write);
    }
    work->pieces.push_back(piece);
  }
  check_distinct(all, copies);
  if (work->pieces.empty())
    return;
  for (const Handles& list : {all.weights, all.states[0], all.states[1]}) {
    for (const NDArray& array : list)
      array.object()->buffer->raise_version();
  }
  task.device = all.weights[0].device();
  task.denormals = all.weights[0].dtype() == float64 ? Denormals::keep : Denormals::flush;
  task.capturable = true;
  all.weights[0].engine().push(
      std::move(task),
      [work = std::move(work)]([[maybe_unused]] Queue queue) {
#if SLUICE_CUDA
        if (queue.device().is_gpu())
          return detail::update_gpu(*work, queue);
#endif
        detail::update_cpu(*work);
      },
      site);
}

}  // namespace

void sgd_update(Handles weights, Handles grads, Handles momenta, const SgdUpdate& options, SourceLocation site) {
  constexpr const char* op = "sgd_update";
  check_count(op, "gradients", grads.size(), weights.size());
  if (!momenta.empty() || options.momentum != 0)
    check_count(op, "momenta", momenta.size(), weights.size());
  push_update(
      {op, weights, grads, {momenta, {}}},
      options,
      [&](std::size_t) { return options.learning_rate; },
      {.beta1 = options.momentum, .rescale = options.rescale_grad, .clip = options.clip_gradient},
      site);
}

void adam_update(
    Handles weights, Handles grads, Handles means, Handles variances, const AdamUpdate& options, SourceLocation site) {
  constexpr const char* op = "adam_update";
  check_count(op, "gradients", grads.size(), weights.size());
  check_count(op, "means", means.size(), weights.size());
  check_count(op, "variances", variances.size(), weights.size());
  check_count(op, "steps", options.steps.size(), weights.size());
  std::int64_t last = 0;
  double corrected = 0;  // of step `last`: most parameters are at the same
  const auto rate = [&](std::size_t i) {
    const std::int64_t step = options.steps[i];
    require<ValueError>(step >= 1, [&] { return message(op, ": step ", step, " is not counted from 1"); });
    if (step != std::exchange(last, step)) {
      const auto t = static_cast<double>(step);
      corrected =
          options.learning_rate * (std::sqrt(1 - std::pow(options.beta2, t)) / (1 - std::pow(options.beta1, t)));
    }
    return corrected;
  };
  push_update(
      {op, weights, grads, {means, variances}},
      options,
      rate,
      {.adam = true,
       .beta1 = options.beta1,
       .beta2 = options.beta2,
       .epsilon = options.epsilon,
       .rescale = options.rescale_grad,
       .clip = options.clip_gradient},
      site);
}

}  // namespace sluice
