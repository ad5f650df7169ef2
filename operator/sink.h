#pragma once

#include <cstdint>
#include <span>

#include <sluice/engine/export.h>
#include <sluice/operator/operator.h>

// Where calls of operators go instead of being run: the seam that tracing stands on.
namespace sluice {

/// One call as invoke() hands it to a sink, after its checks and inference. All that a graph needs to hold it; the
/// references are good until take() returns.
struct OperatorCall {
  const Operator& op;
  std::span<const NDArray> inputs = {};  // with and without memory
  const Attributes& attributes;
  std::span<const ArraySpec> outputs = {};  // what inference says
  const Geometry* view = nullptr;           // of a view: where in the memory of inputs[0] it lies
  SourceLocation site = {};
  std::span<const NDArray> destinations = {};  // not empty: arrays that are written in place of new ones
  bool recorded = false;                       // the call goes on the tape: a gradient of it may be asked for

  /// Does the call write input `i` (running statistics, weights of an update)?
  SLUICE_API bool mutates(std::size_t i) const noexcept;
};

/// Takes the calls of a thread in place of the engine. While a CallSinkScope names it, invoke() checks and infers as
/// always, and then asks take() for the results; the tape is kept as if the call had run, so that backward() hands the
/// calls of gradients over too. A composition comes as one call, except where the operators that it is made of are to
/// be recorded. Reading values, random::seed() and arrays made from values of the program are no calls.
class SLUICE_API CallSink {
 public:
  CallSink() = default;
  CallSink(const CallSink&) = delete;
  CallSink& operator=(const CallSink&) = delete;
  virtual ~CallSink();

  /// The results: one array an output, of the shape, type and device that call.outputs says, with memory or without
  /// (abstract_results()); none where there are destinations. Meanwhile the thread has no sink and records nothing:
  /// invoke() of the same call runs it. What it throws, invoke() throws.
  virtual Arrays take(const OperatorCall& call) = 0;
  /// How often calls that came here wrote what an array without memory stands for. Gradients that saved it before are
  /// refused then, as those of written memory are. Of a sink that does not say: 0.
  virtual std::uint64_t version_of(const NDArray& array) const noexcept;
  /// An array got a hook (autograd::add_hook): gradients are no longer those of the calls alone. May refuse by
  /// throwing.
  virtual void note_hook();
};

/// Gives the calls of this thread to `sink` as long as it lives, or with null to nobody. Other threads, task bodies
/// too, are not concerned.
class SLUICE_API CallSinkScope {
 public:
  explicit CallSinkScope(CallSink* sink) noexcept;
  CallSinkScope(const CallSinkScope&) = delete;
  CallSinkScope& operator=(const CallSinkScope&) = delete;
  ~CallSinkScope();

 private:
  CallSink* before_;
  const void* body_before_;
};

/// An array without memory, contiguous. It goes wherever only shape, type and device are looked at; views and gradients
/// can be taken of it. What reads or writes data throws ValueError: item(), waits, printing, saving, and calls that no
/// sink takes.
SLUICE_API NDArray abstract_array(const ArraySpec& spec);
/// Arrays without memory as the call would give them: a view lies as `call.view` says.
SLUICE_API Arrays abstract_results(const OperatorCall& call);
/// An input of which an operator looks at shape, type and device alone (Operator::shape_inputs): without memory, and of
/// the same value as the array that the spec was taken of. For gradients, whose results have an input's shape.
SLUICE_API NDArray shape_only(const ArraySpec& spec);
/// Which value an array without memory stands for, counted from 1 through the process; handles and detach() share it,
/// every other array has its own. 0 for an array with memory, and where only the shape of one is known.
SLUICE_API std::uint64_t abstract_value(const NDArray& array) noexcept;

/// What a call of `op` on such inputs gives, without arrays. Inputs of views count as contiguous. Throws what inference
/// throws, and UnsupportedError for a composition of a program's own that says nothing.
SLUICE_API Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes);

}  // namespace sluice
