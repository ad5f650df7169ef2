#pragma once

#include <cstddef>
#include <span>
#include <unordered_set>
#include <vector>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>

namespace sluice::gluon::detail {

/// All nodes of the tape that arrays came from.
class Tape {
 public:
  void add(const NDArray& array) {
    std::vector<const autograd::Node*> open{autograd::entry_of(array).node.get()};
    while (!open.empty()) {
      const autograd::Node* const next = open.back();
      open.pop_back();
      if (next == nullptr || !nodes_.insert(next).second)
        continue;
      for (const autograd::Entry& input : next->inputs)
        open.push_back(input.node.get());
    }
  }
  /// Do gradients of the arrays go there?
  bool reaches(const NDArray& variable) const {
    return nodes_.find(autograd::entry_of(variable).node.get()) != nodes_.end();
  }

 private:
  std::unordered_set<const autograd::Node*> nodes_;
};

/// Gradients of heads at variables, zeros where no path leads. Their hooks are not called: whoever asks hands the
/// gradients on to where hooks see them.
inline std::vector<NDArray> gradients_at(
    std::span<const NDArray> variables,
    std::span<const NDArray> heads,
    std::span<const NDArray> head_gradients,
    const BackwardOptions& options,
    SourceLocation site) {
  std::vector<autograd::Entry> places;
  for (const NDArray& variable : variables)
    places.push_back(autograd::entry_of(variable));
  std::vector<NDArray> found = autograd::grad_at("backward", heads, head_gradients, places, options, site);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined())
      found[i] = zeros_like(variables[i]);
  }
  return found;
}

}  // namespace sluice::gluon::detail
