#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <sluice/ndarray/autograd.h>

namespace sluice::autograd {

/// What forward() of a Function keeps for backward(). One a call.
class SLUICE_API Kept {
 public:
  /// Keeps arrays beside those kept before: inputs, results or others. Only forward() may.
  void save(std::span<const NDArray> arrays);
  void save(const NDArray& array) { save({&array, 1}); }
  /// The i-th of them; while backward is itself recorded, inputs and results stand on the tape as in forward. Throws
  /// IndexError, and AutogradError where it was written since, or given back by an earlier backward.
  NDArray saved(std::size_t i) const;
  std::size_t size() const noexcept { return entries_.size(); }
  /// Does anybody want the gradient of input i? True in forward().
  bool wants(std::size_t i) const noexcept;

 private:
  friend class FunctionNode;
  struct Item {
    NDArray given;  // until forward() is over
    Saved saved;
    Entry from;       // where it stood on the tape: an input's
    int result = -1;  // or which result it is
  };
  std::vector<Item> entries_;
  std::vector<bool> wanted_;
  Node* node_ = nullptr;
};

/// A function of arrays with a gradient of its own (MXNet's and PyTorch's autograd.Function): derive and write both
/// ways with operators. One object may serve any number of calls; what belongs to a call goes into its Kept.
class SLUICE_API Function {
 public:
  virtual ~Function();
  /// In errors and traces of the tape.
  virtual const char* name() const noexcept { return "function"; }
  /// The results. Nothing in here is recorded.
  virtual std::vector<NDArray> forward(std::span<const NDArray> inputs, Kept& kept) const = 0;
  /// One gradient an input, of its shape and type, or undefined for none; `grads` are of the results, zeros where
  /// nobody uses one. With create_graph it is recorded.
  virtual std::vector<NDArray> backward(std::span<const NDArray> grads, const Kept& kept) const = 0;
};

/// Calls a function of your own: forward() now, and on the tape, while recording and if an input is on it, one
/// node whose gradient is backward(). The tape keeps `function` as long as it needs it. Throws what forward() throws,
/// ValueError for no function and undefined arrays.
SLUICE_API std::vector<NDArray> apply(
    std::shared_ptr<const Function> function,
    std::span<const NDArray> inputs,
    SourceLocation site = SourceLocation::current());
inline std::vector<NDArray> apply(
    std::shared_ptr<const Function> function,
    std::initializer_list<NDArray> inputs,
    SourceLocation site = SourceLocation::current()) {
  return apply(std::move(function), std::span(inputs.begin(), inputs.size()), site);
}

}  // namespace sluice::autograd
