#include <algorithm>
#include <optional>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/autograd/function.h>
#include <sluice/operator/detail/operator_node.h>

namespace sluice::autograd {

/// One recorded call.
class FunctionNode final : public Node {
 public:
  FunctionNode(
      std::shared_ptr<const Function> function,
      Kept kept,
      std::vector<bool> wanted,
      std::span<const NDArray> from,
      SourceLocation site)
      : Node(function->name(), site), function_(std::move(function)), kept_(std::move(kept)) {
    kept_.node_ = this;
    kept_.wanted_ = std::move(wanted);
    for (std::size_t i = 0; i < from.size(); ++i)
      inputs.push_back(kept_.wanted_[i] ? entry_of(from[i]) : Entry{});
  }

  /// Notes the results, and keeps what forward() saved.
  void keep(std::span<const NDArray> from, std::span<const NDArray> results) {
    for (const NDArray& result : results)
      outputs.push_back({result.shape(), result.dtype(), result.device()});
    for (Kept::Item& item : kept_.entries_) {
      const auto is_it = [&](const NDArray& array) { return array.same(item.given); };
      if (const auto input = std::find_if(from.begin(), from.end(), is_it); input != from.end())
        item.from = inputs[static_cast<std::size_t>(input - from.begin())];
      else if (const auto result = std::find_if(results.begin(), results.end(), is_it); result != results.end())
        item.result = static_cast<int>(result - results.begin());
      item.given = {};
    }
  }

  std::vector<NDArray> pull(std::span<const NDArray> output_grads) override {
    std::optional<EngineScope> scope;  // as of calls of operators
    std::vector<NDArray> grads(output_grads.begin(), output_grads.end());
    for (const NDArray& grad : grads) {
      if (grad.defined() && !scope)
        scope.emplace(grad.engine());
    }
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined())
        grads[i] = zeros(outputs[i].shape, {.dtype = outputs[i].dtype, .device = outputs[i].device});
    }
    std::vector<NDArray> found = function_->backward(grads, kept_);
    require<AutogradError>(found.size() == inputs.size(), [&] {
      return message(name(), ": backward gave ", found.size(), " gradients for ", inputs.size(), " inputs");
    });
    for (std::size_t i = 0; i < found.size(); ++i)
      check_gradient(found[i], i);
    return found;
  }
  void release_saved() noexcept override {
    for (Kept::Item& item : kept_.entries_) {
      item.saved.release();
      item.from = {};
    }
  }

 private:
  void check_gradient(const NDArray& gradient, std::size_t i) const {
    if (!gradient.defined() || !inputs[i].node)
      return;
    const OutputSpec& of = inputs[i].node->outputs[static_cast<std::size_t>(inputs[i].index)];
    require<AutogradError>(gradient.dtype() == of.dtype && gradient.device() == of.device, [&] {
      return message(
          name(),
          ": backward gave ",
          gradient.dtype(),
          " on ",
          gradient.device(),
          " for input ",
          i,
          ", which is ",
          of.dtype,
          " on ",
          of.device);
    });
  }

  std::shared_ptr<const Function> function_;
  Kept kept_;
};

Function::~Function() = default;

void Kept::save(std::span<const NDArray> arrays) {
  require<AutogradError>(node_ == nullptr, [] { return "save: only forward may keep arrays"; });
  for (const NDArray& array : arrays) {
    detail::object_of(array, "save");
    entries_.push_back({.given = array, .saved = Saved(array), .from = {}});
  }
}

NDArray Kept::saved(std::size_t i) const {
  require<IndexError>(i < entries_.size(), [&] {
    return message("saved: array ", i, " was asked for, forward kept ", entries_.size());
  });
  const Item& item = entries_[i];
  if (node_ == nullptr)
    return item.given;
  NDArray array = item.saved.get(node_->name());
  if (!is_recording())
    return array;
  // A fresh handle stands where the array stood: one that named its own node would keep it alive for ever.
  array = array.detach();
  if (item.from.node)
    set_entry(array, item.from.node, item.from.index);
  else if (item.result >= 0)
    set_entry(array, NodeRef::share(node_), item.result);
  return array;
}

bool Kept::wants(std::size_t i) const noexcept {
  return node_ == nullptr || (i < wanted_.size() && wanted_[i]);
}

namespace {

// The results are new handles: an input that comes back is a result, not itself.
std::vector<NDArray> run_forward(const Function& function, std::span<const NDArray> inputs, Kept& kept) {
  const ModeScope unrecorded(false, is_training());
  std::vector<NDArray> results = function.forward(inputs, kept);
  for (std::size_t i = 0; i < results.size(); ++i) {
    require<ValueError>(results[i].defined(), [&] {
      return message(function.name(), ": forward gave an undefined NDArray as result ", i, " of ", results.size());
    });
  }
  return results;
}

}  // namespace

std::vector<NDArray> apply(
    std::shared_ptr<const Function> function, std::span<const NDArray> inputs, SourceLocation site) {
  std::vector<bool> wanted;
  detail::located(site, [&] {
    require<ValueError>(function != nullptr, [] { return "apply: no function was given"; });
    for (const NDArray& input : inputs) {
      const detail::ArrayObject& object = detail::object_of(input, function->name());
      wanted.push_back(is_recording() && object.entry.node && is_floating(object.dtype));
    }
  });
  Kept kept;
  const std::vector<NDArray> results = detail::located(site, [&] { return run_forward(*function, inputs, kept); });
  std::vector<NDArray> given;
  for (const NDArray& result : results)
    given.push_back(result.detach());
  if (std::none_of(wanted.begin(), wanted.end(), [](bool one) { return one; }))
    return given;
  auto* const node = new FunctionNode(std::move(function), std::move(kept), std::move(wanted), inputs, site);
  const NodeRef owner(node);
  node->keep(inputs, results);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (is_floating(given[i].dtype()))
      set_entry(given[i], owner, static_cast<int>(i));
  }
  return given;
}

}  // namespace sluice::autograd
