#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/export.h>
#include <sluice/engine/origin.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::autograd {

/// Recording and training are states of the calling thread. Task bodies start with both off.
SLUICE_API bool is_recording() noexcept;
SLUICE_API bool is_training() noexcept;

/// Sets both states while it lives and restores them after. The named scopes below are MXNet's.
class SLUICE_API ModeScope {
 public:
  ModeScope(bool recording, bool training) noexcept;
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;
  ~ModeScope();

 private:
  bool recording_before_, training_before_;
};

/// autograd.record(): operations are written on the tape; layers behave as in training.
class RecordScope : public ModeScope {
 public:
  explicit RecordScope(bool train_mode = true) noexcept : ModeScope(true, train_mode) {}
};
/// autograd.pause(): nothing is written on the tape.
class PauseScope : public ModeScope {
 public:
  explicit PauseScope(bool train_mode = false) noexcept : ModeScope(false, train_mode) {}
};
/// autograd.train_mode(): layers behave as in training; recording stays as it is.
class TrainScope : public ModeScope {
 public:
  TrainScope() noexcept : ModeScope(is_recording(), true) {}
};
/// autograd.predict_mode().
class PredictScope : public ModeScope {
 public:
  PredictScope() noexcept : ModeScope(is_recording(), false) {}
};

class Node;

/// A counted pointer to a Node. Releasing a long chain does not recurse.
class SLUICE_API NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(Node* adopted) noexcept : node_(adopted) {}
  /// A further reference to a node that is referred to already (a node that hands itself out in pull()).
  static NodeRef share(Node* node) noexcept;
  NodeRef(const NodeRef& other) noexcept;
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef() {
    if (node_ != nullptr)
      drop();
  }
  Node* get() const noexcept { return node_; }
  Node* operator->() const noexcept { return node_; }
  explicit operator bool() const noexcept { return node_ != nullptr; }

 private:
  void drop() noexcept;

  Node* node_ = nullptr;
};

/// Output `index` of a node: what a recorded array came from. A variable's entry names its leaf node.
struct Entry {
  NodeRef node = {};
  int index = 0;
};

/// attach_grad's state: what to do with the gradient, and the gradient.
struct Variable {
  GradReq req = GradReq::write;
  NDArray grad = {};
};

/// What a gradient is when backward has to make one: shape, type and device of an output.
struct OutputSpec {
  Shape shape = {};
  DType dtype = DType::float32;
  Device device = cpu();
};

/// One recorded operation. It holds what its gradient needs (arrays detached from the tape), and drops it after use.
class SLUICE_API Node {
 public:
  Node(const char* name, SourceLocation site) noexcept : name_(name), site_(OriginScope::stamped(site)) {}
  virtual ~Node();

  /// Gradients with respect to the inputs, one each (undefined = no gradient), from the gradients of the outputs
  /// (undefined = zero). Written with operators, so that it can itself be recorded.
  virtual std::vector<NDArray> pull(std::span<const NDArray> output_grads) = 0;
  /// Drops saved arrays; a later pull() throws AutogradError.
  virtual void release_saved() noexcept = 0;

  const char* name() const noexcept { return name_; }
  SourceLocation site() const noexcept { return site_; }
  /// Where the gradient of each input goes; an Entry without node where none is wanted.
  boost::container::small_vector<Entry, 3> inputs;
  boost::container::small_vector<OutputSpec, 1> outputs;
  /// Used by a backward that did not retain the tape.
  bool spent = false;

 private:
  friend class NodeRef;
  std::atomic<int> references_{1};
  Node* next_dying_ = nullptr;  // of those without references that a thread is dropping
  const char* name_;
  SourceLocation site_;
};

/// An array that a node keeps for its gradient: off the tape, with the version of its buffer when it was kept. For
/// create_graph a node puts it back on the tape itself, on a view, in pull().
class SLUICE_API Saved {
 public:
  Saved() = default;
  explicit Saved(const NDArray& array);
  /// The array. Throws AutogradError naming `op` if it was written since, or was released.
  const NDArray& get(const char* op) const;
  bool defined() const noexcept { return array_.defined(); }
  void release() noexcept { array_ = {}; }

 private:
  NDArray array_;
  std::uint64_t version_ = 0;
};

/// True if operations on `array` are to be recorded: it is a variable (with a request) or came from one.
SLUICE_API bool on_tape(const NDArray& array) noexcept;
/// Marks `array` as output `index` of `node`.
SLUICE_API void set_entry(const NDArray& array, NodeRef node, int index);
/// The entry that a gradient of `array` goes to (the leaf of a variable, the node of a result, or none).
SLUICE_API Entry entry_of(const NDArray& array) noexcept;

/// Backward over several heads at once (MXNet autograd.backward). `head_grads` is empty (ones) or one a head. Tasks of
/// a gradient have the site of the operator whose gradient it is.
SLUICE_API void backward(
    std::span<const NDArray> heads,
    std::span<const NDArray> head_grads = {},
    const BackwardOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// Gradients of `heads` with respect to `variables`, returned instead of stored (MXNet autograd.grad).
SLUICE_API std::vector<NDArray> grad(
    std::span<const NDArray> heads,
    std::span<const NDArray> variables,
    std::span<const NDArray> head_grads = {},
    const BackwardOptions& options = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice::autograd

namespace sluice::detail {
// What the tape needs of the maths; defined in the operator room.
/// a + b, recorded if recording is on.
NDArray add_gradients(const NDArray& a, const NDArray& b);
/// into += value, not recorded.
void accumulate_gradient(const NDArray& into, const NDArray& value);
/// Calls of this thread are given to a sink (operator/sink.h), which is to see each write.
bool calls_are_taken() noexcept;
}  // namespace sluice::detail
