#pragma once

#include <unordered_set>
#include <vector>

#include <sluice/ndarray/autograd.h>

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

}  // namespace sluice::gluon::detail
