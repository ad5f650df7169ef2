// The operators sgd_update and adam_update: one call is one task, over any number of arrays that are written in place.
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/update/attributes.h>
#include <sluice/operator/update/numbers.h>
#include <sluice/operator/update/update.h>

namespace sluice {

namespace {

using detail::AdamAttributes;
using detail::SgdAttributes;
using detail::UpdatePiece;
using detail::UpdateWork;
using Handles = std::span<const NDArray>;

// What the inputs of a call are, list after list: weights, gradients, states. Behind them may stand the numbers of the
// step, to be read when it runs.
struct Lists {
  std::size_t lists = 2;
  std::size_t count = 0;  // of parameters
  bool numbers = false;

  Lists(std::size_t of_lists, std::size_t inputs)
      : lists(of_lists), count(inputs / of_lists), numbers(inputs % of_lists == 1) {}
  std::size_t list_of(std::size_t i) const noexcept { return i / count; }
};

template <class A>
Lists lists_of(std::size_t inputs, const Attributes& attributes) {
  return Lists(attributes.as<A>().lists(), inputs);
}

// -- Inference: the arrays of one parameter fit each other -------------------------------------------------------
void check_spec(
    const char* op, const char* what, std::size_t i, const ArraySpec& spec, const ArraySpec& weight, DType dtype) {
  require<ShapeError>(spec.shape == weight.shape, [&] {
    return message(op, ": ", what, " ", i, " has shape ", spec.shape, ", its weight ", weight.shape);
  });
  require<DTypeError>(spec.dtype == dtype, [&] {
    return message(op, ": ", what, " ", i, " is ", spec.dtype, " beside a ", weight.dtype, " weight, not ", dtype);
  });
}

template <class A>
Specs infer_update(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const Lists all = lists_of<A>(inputs.size(), attributes);
  require<ValueError>(all.count > 0 && inputs.size() - all.lists * all.count <= 1, [&] {
    return message(op.name, ": ", inputs.size(), " inputs are not ", all.lists, " lists of arrays");
  });
  for (std::size_t i = 0; i < all.count; ++i) {
    const ArraySpec& weight = inputs[i];
    require<DTypeError>(is_floating(weight.dtype), [&] {
      return message(op.name, ": weight ", i, " is ", weight.dtype, ", not of a floating type");
    });
    check_spec(op.name, "gradient", i, inputs[all.count + i], weight, weight.dtype);
    for (std::size_t list = 2; list < all.lists; ++list)
      check_spec(
          op.name, "state", i, inputs[list * all.count + i], weight, weight.dtype == float64 ? float64 : float32);
  }
  if (all.numbers) {
    const ArraySpec& numbers = inputs.back();
    const Shape wanted{static_cast<std::int64_t>(all.count) + 1};
    require<ShapeError>(numbers.shape == wanted, [&] {
      return message(op.name, ": numbers of shape ", numbers.shape, ", for ", all.count, " parameters ", wanted);
    });
    require<DTypeError>(
        numbers.dtype == float64, [&] { return message(op.name, ": numbers are float64, not ", numbers.dtype); });
  }
  attributes.as<A>().check(op.name, all.count, all.numbers);
  return {};
}

template <class A>
bool mutates(std::size_t i, std::size_t inputs, const Attributes& attributes) {
  const Lists all = lists_of<A>(inputs, attributes);
  return i < all.lists * all.count && all.list_of(i) != 1;
}

// -- Running: the arrays lie as the kernels need them ------------------------------------------------------------
// What the step writes: in place, so as it lies.
void check_written(const char* op, const char* what, std::size_t i, const NDArray& array) {
  require<ValueError>(array.is_contiguous(), [&] {
    return message(op, ": ", what, " ", i, " of shape ", array.shape(), " is not contiguous");
  });
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

// The arrays of all parameters, by their role; states that the rule does not use are empty lists.
struct Parameters {
  const char* op;
  Handles weights;
  Handles grads;
  Handles states[2];
};

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

Parameters parameters_of(const IssueCall& call, const Lists& all) {
  Parameters made{call.op.name, call.inputs.first(all.count), call.inputs.subspan(all.count, all.count), {}};
  for (std::size_t list = 2; list < all.lists; ++list)
    made.states[list - 2] = call.inputs.subspan(list * all.count, all.count);
  for (std::size_t i = 0; i < all.count; ++i) {
    check_written(made.op, "weight", i, made.weights[i]);
    for (const Handles& states : made.states) {
      if (!states.empty())
        check_written(made.op, "state", i, states[i]);
    }
  }
  return made;
}

void raise_versions(const Parameters& all) {
  for (const Handles& list : {all.weights, all.states[0], all.states[1]}) {
    for (const NDArray& array : list)
      array.object()->buffer->raise_version();
  }
}

// What one task does to the arrays, and whom it names. `copies`, of gradients with gaps, stay until it is pushed, which
// is when its accesses keep their memory.
void add_pieces(
    const Parameters& all,
    std::span<const double> rates,
    std::span<const double> decays,
    UpdateWork& work,
    Task& task,
    std::vector<NDArray>& copies) {
  for (std::size_t i = 0; i < all.weights.size(); ++i) {
    const NDArray& weight = all.weights[i];
    if (weight.size() == 0)
      continue;
    copies.push_back(all.grads[i].contiguous());
    UpdatePiece piece{weight.object()->data(), copies.back().object()->data(), {}, weight.size(), rates[i], decays[i]};
    piece.dtype = weight.dtype();
    piece.number = static_cast<std::int64_t>(i);
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
    work.pieces.push_back(piece);
  }
  check_distinct(all, copies);
}

template <class A>
void issue_update(const IssueCall& call) {
  const A& a = call.attributes.as<A>();
  const Lists lists = lists_of<A>(call.inputs.size(), call.attributes);
  const Parameters all = parameters_of(call, lists);
  const NDArray numbers = lists.numbers ? call.inputs.back().contiguous(call.site) : NDArray();
  auto work = std::make_unique<UpdateWork>();
  work->rule = a.rule();
  work->count = static_cast<std::int64_t>(lists.count);
  Task task{.name = TaskName::lasting(call.op.name)};
  const auto rates = numbers.defined() ? std::vector<double>(lists.count) : a.rates(lists.count);
  std::vector<NDArray> copies;
  add_pieces(all, rates, a.decays(lists.count), *work, task, copies);
  if (work->pieces.empty())
    return;
  if (numbers.defined()) {
    work->numbers = reinterpret_cast<const double*>(numbers.object()->data());
    detail::add_access(task.access, numbers, AccessMode::read);
  }
  raise_versions(all);
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
      call.site);
}

template <class A>
constexpr Operator k_update_of(const char* name) {
  return {
      .name = name,
      .inputs = -1,
      .outputs = 0,
      .attributes = &attribute_type<A>,
      .infer = infer_update<A>,
      .issue = issue_update<A>,
      .strided_inputs = k_all,
      .mutates = mutates<A>,
  };
}

void call_update(
    const Operator& op,
    std::initializer_list<Handles> lists,
    const NDArray& numbers,
    Attributes attributes,
    SourceLocation site) {
  std::vector<NDArray> inputs;
  for (const Handles& list : lists)
    inputs.insert(inputs.end(), list.begin(), list.end());
  if (inputs.empty())
    return;
  if (numbers.defined())
    inputs.push_back(numbers);
  invoke(op, inputs, std::move(attributes), site);
}

}  // namespace

namespace detail {

const Operator k_sgd_update = k_update_of<SgdAttributes>("sgd_update");
const Operator k_adam_update = k_update_of<AdamAttributes>("adam_update");

OperatorList update_operators() noexcept {
  static const Operator* const list[] = {&k_sgd_update, &k_adam_update, &k_words};
  return list;
}

}  // namespace detail

void sgd_update(Handles weights, Handles grads, Handles momenta, const SgdUpdate& options, SourceLocation site) {
  constexpr const char* op = "sgd_update";
  detail::located(site, [&] {
    detail::check_count(op, "gradients", grads.size(), weights.size());
    if (!momenta.empty() || options.momentum != 0)
      detail::check_count(op, "momenta", momenta.size(), weights.size());
    call_update(
        detail::k_sgd_update,
        {weights, grads, momenta},
        options.numbers,
        Attributes::of(SgdAttributes(options, !momenta.empty())),
        site);
  });
}

void adam_update(
    Handles weights, Handles grads, Handles means, Handles variances, const AdamUpdate& options, SourceLocation site) {
  constexpr const char* op = "adam_update";
  detail::located(site, [&] {
    detail::check_count(op, "gradients", grads.size(), weights.size());
    detail::check_count(op, "means", means.size(), weights.size());
    detail::check_count(op, "variances", variances.size(), weights.size());
    call_update(
        detail::k_adam_update,
        {weights, grads, means, variances},
        options.numbers,
        Attributes::of(AdamAttributes(options)),
        site);
  });
}

}  // namespace sluice
