// The operators of optimizers: one call is one task, over any number of arrays that are written in place.
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/update/attributes.h>
#include <sluice/operator/update/loss_scale.h>
#include <sluice/operator/update/numbers.h>
#include <sluice/operator/update/recycled_work.h>
#include <sluice/operator/update/rules.h>

namespace sluice {

namespace {

namespace rules = update_rules;
using detail::RuleAttributes;
using detail::UpdatePiece;
using detail::UpdateWork;
using Handles = std::span<const NDArray>;
constexpr std::size_t k_few = 32;  // of so many arrays no list takes memory
using Copies = boost::container::small_vector<NDArray, k_few>;

// What the inputs of a call are, list after list: weights, gradients, states. Behind them may stand masters, of half
// weights alone, the numbers of the step, to be read when it runs, and a guard.
struct Lists {
  std::size_t lists = 2;
  std::size_t masters = 0;
  std::size_t count = 0;  // of parameters
  bool numbers = false;
  bool guarded = false;

  template <class A>
  Lists(const A& a, std::size_t inputs)
      : lists(a.lists()), masters(static_cast<std::size_t>(a.masters)), guarded(a.guarded) {
    const std::size_t behind = masters + (guarded ? 1 : 0);
    const std::size_t arrays = inputs > behind ? inputs - behind : 0;
    count = arrays / lists;
    numbers = arrays % lists == 1;
  }
  std::size_t list_of(std::size_t i) const noexcept { return i / count; }
  std::size_t first_master() const noexcept { return lists * count; }
  std::size_t inputs() const noexcept { return lists * count + masters + (numbers ? 1 : 0) + (guarded ? 1 : 0); }
  std::size_t numbers_at() const noexcept { return lists * count + masters; }
};

// -- Inference: the arrays of one parameter fit each other -------------------------------------------------------
void check_type(
    const char* op, const char* what, std::size_t i, const ArraySpec& spec, const ArraySpec& weight, DType dtype) {
  require<DTypeError>(spec.dtype == dtype, [&] {
    return message(op, ": ", what, " ", i, " is ", spec.dtype, " beside a ", weight.dtype, " weight, not ", dtype);
  });
}

void check_spec(
    const char* op, const char* what, std::size_t i, const ArraySpec& spec, const ArraySpec& weight, DType dtype) {
  require<ShapeError>(spec.shape == weight.shape, [&] {
    return message(op, ": ", what, " ", i, " has shape ", spec.shape, ", its weight ", weight.shape);
  });
  check_type(op, what, i, spec, weight, dtype);
}

template <class Rule>
void check_state(
    const char* op, const Rule& rule, std::size_t list, std::size_t i, const ArraySpec& spec, const ArraySpec& weight) {
  const Shape wanted = rules::state_shape(rule, list, weight.shape);
  require<ShapeError>(spec.shape == wanted, [&] {
    const std::string whole = message(op, ": state ", i, " has shape ", spec.shape, ", its weight ", weight.shape);
    return wanted == weight.shape ? whole : message(whole, ", of which state '", rule.states()[list], "' has ", wanted);
  });
  check_type(op, "state", i, spec, weight, detail::wide_type(weight.dtype));
}

// Masters in the order of the weights that have them.
void check_masters(const char* op, const Lists& all, std::span<const ArraySpec> inputs) {
  std::size_t next = all.first_master();
  for (std::size_t i = 0; all.masters > 0 && i < all.count; ++i) {
    if (!detail::is_half(inputs[i].dtype))
      continue;
    if (next < all.first_master() + all.masters)
      check_spec(op, "master", i, inputs[next], inputs[i], float32);
    ++next;
  }
  const std::size_t halves = next - all.first_master();
  require<ValueError>(all.masters == 0 || all.masters == halves, [&] {
    return message(op, ": ", all.masters, " masters for ", halves, " weights of half types");
  });
}

void check_vector(const char* op, const char* what, const ArraySpec& spec, std::size_t size, const std::string& of) {
  const Shape wanted{static_cast<std::int64_t>(size)};
  require<ShapeError>(
      spec.shape == wanted, [&] { return message(op, ": ", what, " of shape ", spec.shape, of, wanted); });
  require<DTypeError>(spec.dtype == float64, [&] { return message(op, ": ", what, " are float64, not ", spec.dtype); });
}

template <class Rule>
Specs infer_update(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<RuleAttributes<Rule>>();
  require<ValueError>(a.masters >= 0, [&] { return message(op.name, ": ", a.masters, " masters"); });
  const Lists all(a, inputs.size());
  require<ValueError>(all.count > 0 && inputs.size() == all.inputs(), [&] {
    return message(op.name, ": ", inputs.size(), " inputs are not ", all.lists, " lists of arrays");
  });
  for (std::size_t i = 0; i < all.count; ++i) {
    const ArraySpec& weight = inputs[i];
    require<DTypeError>(is_floating(weight.dtype), [&] {
      return message(op.name, ": weight ", i, " is ", weight.dtype, ", not of a floating type");
    });
    check_spec(op.name, "gradient", i, inputs[all.count + i], weight, weight.dtype);
    for (std::size_t list = 2; list < all.lists; ++list)
      check_state(op.name, a.rule, list - 2, i, inputs[list * all.count + i], weight);
  }
  check_masters(op.name, all, inputs);
  if (all.numbers) {
    const std::string of = message(", for ", all.count, " parameters ");
    check_vector(op.name, "numbers", inputs[all.numbers_at()], all.count * detail::k_rates_of<Rule> + 1, of);
  }
  if (all.guarded)
    check_vector(op.name, "words of a guard", inputs.back(), 3, ", not ");
  a.check(op.name, all.count, all.numbers);
  return {};
}

template <class Rule>
bool mutates(std::size_t i, std::size_t inputs, const Attributes& attributes) {
  const Lists all(attributes.as<RuleAttributes<Rule>>(), inputs);
  const std::size_t read = detail::k_only_reads_states<Rule> ? 2 : 1;  // the last list that is
  return i < all.first_master() ? all.list_of(i) < 1 || all.list_of(i) > read : i < all.first_master() + all.masters;
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
  Handles states[detail::k_most_states];
  std::vector<NDArray> masters;  // one a weight, undefined where it has none
  bool reads_states = false;     // and does not write them

  /// Lists of what is written.
  boost::container::static_vector<Handles, 2 + detail::k_most_states> written() const {
    if (reads_states)
      return {weights, masters};
    return {weights, states[0], states[1], states[2], masters};
  }
};

// Two threads would write the same elements, or read some while others write them. `grads` are those that are read; of
// its own weight a gradient may be the memory.
void check_distinct(const Parameters& all, Handles grads) {
  boost::container::small_vector<Extent, k_few> written;
  for (const Handles& list : all.written()) {
    for (const NDArray& array : list) {
      if (array.defined() && array.size() > 0)
        written.push_back(extent_of(array));
    }
  }
  const auto before = [](const Extent& a, const Extent& b) { return a.begin < b.begin; };
  std::sort(written.begin(), written.end(), before);
  const auto meet = [](const Extent& a, const Extent& b) { return b.begin < a.end; };
  require<ValueError>(std::adjacent_find(written.begin(), written.end(), meet) == written.end(), [&] {
    return message(all.op, ": two of the weights and states share memory");
  });
  const auto is_apart = [&](const Extent& read) {
    const auto behind = std::lower_bound(written.begin(), written.end(), Extent{read.end, nullptr}, before);
    return behind == written.begin() || std::prev(behind)->end <= read.begin;
  };
  std::size_t next = 0;
  for (std::size_t i = 0; i < all.weights.size(); ++i) {
    if (all.weights[i].size() == 0)
      continue;
    const Extent grad = extent_of(grads[next++]);
    require<ValueError>(grad.begin == extent_of(all.weights[i]).begin || is_apart(grad), [&] {
      return message(all.op, ": a gradient shares memory with a weight or state that is not its own");
    });
    require<ValueError>(!all.reads_states || is_apart(extent_of(all.states[0][i])), [&] {
      return message(all.op, ": noise shares memory with a weight");
    });
  }
}

Parameters parameters_of(const IssueCall& call, const Lists& all, bool reads_states) {
  Parameters made{call.op.name, call.inputs.first(all.count), call.inputs.subspan(all.count, all.count), {}, {}};
  made.reads_states = reads_states;
  for (std::size_t list = 2; list < all.lists; ++list)
    made.states[list - 2] = call.inputs.subspan(list * all.count, all.count);
  std::size_t next = all.first_master();
  for (std::size_t i = 0; i < all.count; ++i) {
    check_written(made.op, "weight", i, made.weights[i]);
    for (const Handles& states : made.states) {
      if (!states.empty())
        check_written(made.op, "state", i, states[i]);
    }
    if (all.masters == 0)
      continue;
    made.masters.push_back(detail::is_half(made.weights[i].dtype()) ? call.inputs[next++] : NDArray());
    if (made.masters[i].defined())
      check_written(made.op, "master", i, made.masters[i]);
  }
  return made;
}

void raise_versions(const Parameters& all) {
  for (const Handles& list : all.written()) {
    for (const NDArray& array : list) {
      if (array.defined())
        array.object()->buffer->raise_version();
    }
  }
}

// What one task does to the arrays, and whom it names. `copies`, of gradients with gaps, stay until it is pushed, which
// is when its accesses keep their memory.
void add_pieces(
    const Parameters& all, std::span<const detail::Rates<double>> rates, UpdateWork& work, Task& task, Copies& copies) {
  for (std::size_t i = 0; i < all.weights.size(); ++i) {
    const NDArray& weight = all.weights[i];
    if (weight.size() == 0)
      continue;
    copies.push_back(all.grads[i].contiguous());
    UpdatePiece piece{.weight = weight.object()->data(), .grad = copies.back().object()->data()};
    piece.size = weight.size();
    piece.rates = rates[i];
    piece.dtype = weight.dtype();
    piece.number = static_cast<std::int64_t>(i);
    const auto bytes = static_cast<std::uint64_t>(weight.size()) * size_of(weight.dtype());
    task.bytes += 3 * bytes;  // the weight twice
    detail::add_access(task.access, weight, AccessMode::write);
    detail::add_access(task.access, copies.back(), AccessMode::read);
    const auto written = [&](const NDArray& array) {
      task.bytes += 2 * bytes;
      detail::add_access(task.access, array, AccessMode::write);
      return static_cast<void*>(array.object()->data());
    };
    const auto read = [&](const NDArray& array) {
      task.bytes += bytes;
      detail::add_access(task.access, array, AccessMode::read);
      return static_cast<void*>(array.object()->data());
    };
    for (int state = 0; state < detail::k_most_states; ++state) {
      if (all.states[state].empty())
        continue;
      const NDArray& array = all.states[state][i];
      piece.state[state] = all.reads_states ? read(array) : written(array);
    }
    if (!all.masters.empty() && all.masters[i].defined())
      piece.master = static_cast<float*>(written(all.masters[i]));
    work.pieces.push_back(piece);
  }
  check_distinct(all, copies);
}

// What the step reads when it runs.
const double* read_doubles(const NDArray& array, Task& task) {
  if (!array.defined())
    return nullptr;
  detail::add_access(task.access, array, AccessMode::read);
  return reinterpret_cast<const double*>(array.object()->data());
}

void push_update(const Parameters& all, detail::OwnedWork work, Task task, SourceLocation site) {
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
      site);
}

template <class Rule>
void issue_update(const IssueCall& call) {
  const auto& a = call.attributes.as<RuleAttributes<Rule>>();
  const Lists lists(a, call.inputs.size());
  const Parameters all = parameters_of(call, lists, detail::k_only_reads_states<Rule>);
  const NDArray numbers = lists.numbers ? call.inputs[lists.numbers_at()].contiguous(call.site) : NDArray();
  const NDArray guard = lists.guarded ? call.inputs.back().contiguous(call.site) : NDArray();
  detail::OwnedWork work = detail::new_work();
  work->rule = a.rule32();
  work->rule64 = a.rule64();
  work->rescale = a.rescale_grad;
  work->clip = a.clip_gradient;
  work->count = static_cast<std::int64_t>(lists.count);
  Task task{.name = TaskName::lasting(call.op.name)};
  Copies copies;
  add_pieces(all, a.rates(lists.count, lists.numbers), *work, task, copies);
  if (work->pieces.empty())
    return;
  a.tell_pieces(all.weights, *work);
  work->numbers = read_doubles(numbers, task);
  work->guard = read_doubles(guard, task);
  push_update(all, std::move(work), std::move(task), call.site);
}

template <class Rule>
constexpr Operator k_update_of(const char* name) {
  return {
      .name = name,
      .inputs = -1,
      .outputs = 0,
      .attributes = &attribute_type<RuleAttributes<Rule>>,
      .infer = infer_update<Rule>,
      .issue = issue_update<Rule>,
      .strided_inputs = k_all,
      .mutates = mutates<Rule>,
  };
}

}  // namespace

namespace detail {

#define SLUICE_UPDATE_RULE(Rule, name) const Operator k_##name = k_update_of<rules::Rule>(#name);
SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE

namespace {

// `found`, if the operator is the rule's.
template <class Rule>
void find_inputs(const Operator& op, const Attributes& attributes, UpdateInputs& found) {
  if (*op.attributes != attribute_type<RuleAttributes<Rule>>)
    return;
  const auto& a = attributes.as<RuleAttributes<Rule>>();
  found = {a.lists(), static_cast<std::size_t>(a.masters) + (a.guarded ? 1 : 0)};
}

}  // namespace

UpdateInputs update_inputs(const Operator& op, const Attributes& attributes) {
  UpdateInputs found;
#define SLUICE_UPDATE_RULE(Rule, name) find_inputs<rules::Rule>(op, attributes, found);
  SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE
  return found;
}

OperatorList update_operators() noexcept {
  static const Operator* const list[] = {
#define SLUICE_UPDATE_RULE(Rule, name) &k_##name,
      SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE
          & k_gradient_guard,
      &k_loss_scale_update,
      &k_words};
  return list;
}

}  // namespace detail
}  // namespace sluice
