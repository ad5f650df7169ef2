#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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

/// Nodes recorded by this thread while it lives bear its number, so that they can be told from those before it.
class SLUICE_API TapeSection {
 public:
  TapeSection() noexcept;
  TapeSection(const TapeSection&) = delete;
  TapeSection& operator=(const TapeSection&) = delete;
  ~TapeSection();

  std::uint32_t number() const noexcept { return number_; }
  /// The innermost one's; 0 outside of all.
  static std::uint32_t here() noexcept;

 private:
  std::uint32_t number_, before_;
};

/// What add_hook() is given: it sees the gradient of an array once it is whole, and gives what is to go on in its
/// place, of the same shape, type and device; or an undefined array to leave it.
using GradientHook = std::function<NDArray(const NDArray& gradient)>;

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
  Node(const char* name, SourceLocation site) noexcept
      : section_(TapeSection::here()), name_(name), site_(OriginScope::stamped(site)) {}
  virtual ~Node();

  /// Gradients with respect to the inputs, one each (undefined = no gradient), from the gradients of the outputs
  /// (undefined = zero). Written with operators, so that it can itself be recorded.
  virtual std::vector<NDArray> pull(std::span<const NDArray> output_grads) = 0;
  /// Drops saved arrays; a later pull() throws AutogradError.
  virtual void release_saved() noexcept = 0;

  const char* name() const noexcept { return name_; }
  SourceLocation site() const noexcept { return site_; }
  /// The number of the TapeSection that it was recorded in; 0: none.
  std::uint32_t section() const noexcept { return section_; }
  /// Where the gradient of each input goes; an Entry without node where none is wanted.
  boost::container::small_vector<Entry, 3> inputs;
  boost::container::small_vector<OutputSpec, 1> outputs;
  /// Used by a backward that did not retain the tape.
  bool spent = false;

  struct Hook {
    std::uint64_t number;
    int output;
    GradientHook call;
  };
  /// In the order in which they were added; null: none.
  std::unique_ptr<std::vector<Hook>> hooks;

 private:
  friend class NodeRef;
  std::atomic<int> references_{1};
  std::uint32_t section_;
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

/// Calls `hook` with the gradient of `array`, an intermediate result or a variable, in every backward or grad() that
/// comes by, before it goes on (PyTorch's Tensor.register_hook). It runs on the thread of backward; hooks run in the
/// order in which they were added, each with what the one before it gave. The tape keeps the hook: one that holds the
/// array itself keeps both alive until it is removed. Not while another thread goes back over the same array. Returns a
/// number for remove_hook(). Throws AutogradError for an array that is not on the tape.
SLUICE_API std::uint64_t add_hook(
    const NDArray& array, GradientHook hook, SourceLocation site = SourceLocation::current());
/// False where there is no such hook any more.
SLUICE_API bool remove_hook(const NDArray& array, std::uint64_t number);

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
/// The gradient of one head with respect to one variable; the head's own is ones.
inline NDArray grad(
    const NDArray& head,
    const NDArray& variable,
    const BackwardOptions& options = {},
    SourceLocation site = SourceLocation::current()) {
  return grad(std::span(&head, 1), std::span(&variable, 1), {}, options, site)[0];
}

/// Gradients of `heads` at these places of the tape, undefined where no path leads to one. Nothing behind the places is
/// looked at. For nodes that go back over a tape of their own; `op` names them in errors.
SLUICE_API std::vector<NDArray> grad_at(
    const char* op,
    std::span<const NDArray> heads,
    std::span<const NDArray> head_grads,
    std::span<const Entry> places,
    const BackwardOptions& options,
    SourceLocation site);

}  // namespace sluice::autograd

namespace sluice::detail {
// What the tape needs of the maths; defined in the operator room.
/// a + b, recorded if recording is on.
NDArray add_gradients(const NDArray& a, const NDArray& b);
/// into += value, not recorded.
void accumulate_gradient(const NDArray& into, const NDArray& value);
/// Waits for the array; of types that have no NaN false.
bool has_nan(const NDArray& array);
/// Calls of this thread are given to a sink (operator/sink.h), which is to see each write.
bool calls_are_taken() noexcept;
/// Tells that sink that an array got a hook; nothing where there is none.
void note_hook();
}  // namespace sluice::detail
