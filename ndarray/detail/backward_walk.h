#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <boost/container/small_vector.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>

#include <sluice/ndarray/autograd.h>

namespace sluice::autograd {

using Gradients = boost::container::small_vector<NDArray, 1>;

/// What the walk knows of one node.
struct Visit {
  NodeRef node;
  int consumers = 0;       // edges into it that have not delivered yet
  bool needed = false;     // a gradient that was asked for lies at it or behind it
  bool pulls = false;      // ... behind it
  bool is_target = false;  // its gradients are asked for themselves (grad())
  Gradients gradients;     // one an output, undefined = zero so far
};

/// The walk back over the tape: every node once, after all that consumed its outputs, without recursion. Pushes work
/// and never waits, unless it is to find NaN.
class Walk {
 public:
  Walk(const char* op, const BackwardOptions& options, SourceLocation site)
      : op_(op), options_(options), site_(site), scope_(OriginScope::stamped(site)) {}

  void add_head(const NDArray& head, const NDArray* gradient);
  /// Asks for the gradient of `variable` itself instead of depositing gradients in variables.
  void add_target(const NDArray& variable);
  /// The same of a place of the tape, behind which the walk does not go.
  void add_end(const Entry& place);
  void run();
  /// Is a walk that looks for NaN running on this thread? Nodes with tapes of their own look too.
  static bool finds_nan_here() noexcept;
  /// Adds where this backward was asked for.
  void locate(Error& error) const;
  /// After run(): the gradient of the i-th target, zeros if no path leads there.
  NDArray target_gradient(std::size_t i, const NDArray& variable) const;
  /// The same, undefined if no path leads there.
  const NDArray& end_gradient(std::size_t i) const { return targets_[i].gradient; }

 private:
  struct Target {
    Entry entry;
    NDArray gradient;
  };

  std::size_t visit_of(const NodeRef& node);
  void discover();
  void mark_needed();
  void process(std::size_t at);
  bool is_end(const Node* node) const { return ends_.contains(node); }
  void call_hooks(Visit& visit);
  void check_whole(const Visit& visit) const;
  void collect(const Visit& visit);
  std::vector<NDArray> pull(Node& node, const Gradients& gradients);
  template <class What>
  void check_numbers(const NDArray& gradient, const What& what) const;
  void deliver(const Entry& to, NDArray gradient, const Node& from, std::size_t input);
  void add_to(Visit& visit, int output, NDArray gradient);

  const char* op_;
  BackwardOptions options_;
  SourceLocation site_;
  OriginScope scope_;  // what is not of a node's gradient
  boost::unordered_flat_map<Node*, std::size_t> index_;
  std::vector<Visit> visits_;  // in the order of discovery
  std::vector<std::size_t> ready_;
  std::vector<Target> targets_;
  boost::unordered_flat_set<const Node*> ends_;
};

}  // namespace sluice::autograd
