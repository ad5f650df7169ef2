// Backward over the tape: what it is asked for, and what it gives.
#include <sluice/ndarray/detail/backward_walk.h>

namespace sluice::autograd {

namespace {

void add_heads(Walk& walk, const char* op, std::span<const NDArray> heads, std::span<const NDArray> head_grads) {
  require<ValueError>(!heads.empty(), [&] { return message(op, ": no head was given"); });
  require<ValueError>(head_grads.empty() || head_grads.size() == heads.size(), [&] {
    return message(op, ": ", head_grads.size(), " head gradients for ", heads.size(), " heads");
  });
  for (std::size_t i = 0; i < heads.size(); ++i)
    walk.add_head(heads[i], head_grads.empty() ? nullptr : &head_grads[i]);
}

}  // namespace

void backward(
    std::span<const NDArray> heads,
    std::span<const NDArray> head_grads,
    const BackwardOptions& options,
    SourceLocation site) {
  Walk walk("backward", options, site);
  try {
    add_heads(walk, "backward", heads, head_grads);
    walk.run();
  } catch (Error& error) {
    walk.locate(error);
    throw;
  }
}

std::vector<NDArray> grad(
    std::span<const NDArray> heads,
    std::span<const NDArray> variables,
    std::span<const NDArray> head_grads,
    const BackwardOptions& options,
    SourceLocation site) {
  if (variables.empty())
    return {};
  Walk walk("grad", options, site);
  try {
    add_heads(walk, "grad", heads, head_grads);
    for (const NDArray& variable : variables)
      walk.add_target(variable);
    walk.run();
  } catch (Error& error) {
    walk.locate(error);
    throw;
  }
  std::vector<NDArray> found;
  for (std::size_t i = 0; i < variables.size(); ++i)
    found.push_back(walk.target_gradient(i, variables[i]));
  return found;
}

std::vector<NDArray> grad_at(
    const char* op,
    std::span<const NDArray> heads,
    std::span<const NDArray> head_grads,
    std::span<const Entry> places,
    const BackwardOptions& options,
    SourceLocation site) {
  if (places.empty())
    return {};
  BackwardOptions told = options;
  told.find_nan = told.find_nan || Walk::finds_nan_here();
  Walk walk(op, told, site);
  for (const Entry& place : places)
    walk.add_end(place);
  add_heads(walk, op, heads, head_grads);
  walk.run();
  std::vector<NDArray> found;
  for (std::size_t i = 0; i < places.size(); ++i)
    found.push_back(walk.end_gradient(i));
  return found;
}

}  // namespace sluice::autograd
