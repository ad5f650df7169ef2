#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/attributes.h>
#include <sluice/operator/memory_order.h>

namespace sluice {

/// Shape, type and place of an array, without its data: what inference works on.
struct ArraySpec {
  Shape shape = {};
  DType dtype = DType::float32;
  Device device = cpu();
  std::uint64_t value = 0;  // abstract_value() of an input without memory
};

/// How an array lies in its memory: steps and the first element's place in elements.
struct Geometry {
  Shape shape = {};
  Shape strides = {};
  std::int64_t offset = 0;
};

/// What a kernel sees of an array. `data` is the first element; strides are in elements.
struct TensorView {
  void* data = nullptr;
  Shape shape = {};
  Shape strides = {};
  std::int64_t size = 0;
  DType dtype = DType::float32;
  bool contiguous = true;

  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(data);
  }
};

using Specs = boost::container::small_vector<ArraySpec, 3>;
using Arrays = boost::container::small_vector<NDArray, 3>;

struct Operator;

/// One run of a kernel, inside its task. On a GPU the kernel enqueues on queue.stream() and returns.
struct KernelCall {
  const Operator& op;
  Queue queue;
  std::span<const TensorView> inputs = {};
  std::span<const TensorView> outputs = {};
  const Attributes& attributes;
  RandomBlock random = {};  // set if the operator asked for random numbers and the call brings none
};

/// One call of an operator that pushes its tasks itself. Inputs lie as they lie, outputs may have any strides.
struct IssueCall {
  const Operator& op;
  std::span<const NDArray> inputs = {};
  std::span<const NDArray> outputs = {};
  const Attributes& attributes;
  SourceLocation site = {};
  bool made = false;  // outputs are new arrays, which nobody else knows yet
};

/// One pull of a gradient: all as arrays, to be combined with operators. Inputs and outputs that the operator did
/// not ask to save are undefined.
struct GradientCall {
  const Operator& op;
  std::span<const NDArray> inputs = {};
  std::span<const NDArray> outputs = {};
  std::span<const NDArray> output_grads = {};  // undefined = zero
  const Attributes& attributes;
  RandomBlock random = {};                      // what forward used
  std::span<const bool> wanted = {};            // per input
  std::span<const ArraySpec> input_specs = {};  // known even where the input was not saved
};

/// What a call becomes in the form that inference and kernels take: operands of one type, axes counted from the front.
struct NormalCall {
  Arrays inputs = {};
  Attributes attributes;
};

/// One call before inference, inputs defined and on one device.
struct RawCall {
  const Operator& op;
  std::span<const NDArray> inputs = {};
  const Attributes& attributes;
  SourceLocation site = {};
};

/// Fills in `normal` and says true where the call is not in its normal form yet; casts are calls of their own,
/// recorded.
using Normalise = bool (*)(const RawCall& call, NormalCall& normal);
/// Of a call of so many inputs, all of type `dtype` and of one shape: true if it is in its normal form and gives one
/// result of that shape, of type `dtype` as it is set then. False says nothing.
using Alike = bool (*)(std::size_t inputs, const Attributes& attributes, DType& dtype);
using Infer = Specs (*)(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes);
using Kernel = void (*)(const KernelCall& call);

/// The kernels of an operator, by kind of device. Beside the engine's kinds there is room for further ones: a plugin
/// that brings a kind fills its places, of its own operators here, of others by register_kernel().
class KernelTable {
 public:
  static constexpr std::size_t k_places = 4;

  struct Place {
    DeviceKind kind;
    Kernel kernel;
  };

  constexpr KernelTable() = default;
  constexpr KernelTable(std::initializer_list<Place> places) {  // NOLINT: as a braced list
    for (const Place& place : places)
      set(place.kind, place.kernel);
  }

  /// Null: none. The kind may be any.
  constexpr Kernel operator[](DeviceKind kind) const noexcept {
    const auto place = static_cast<std::size_t>(kind);
    return place < k_places ? kernels_[place] : nullptr;
  }
  /// Throws std::out_of_range for a kind without a place.
  constexpr void set(DeviceKind kind, Kernel kernel) { kernels_.at(static_cast<std::size_t>(kind)) = kernel; }
  constexpr bool empty() const noexcept { return kernels_ == std::array<Kernel, k_places>{}; }

 private:
  std::array<Kernel, k_places> kernels_ = {};
};

constexpr KernelTable::Place on_cpu(Kernel kernel) noexcept {
  return {DeviceKind::cpu, kernel};
}
/// `kernel` is SLUICE_GPU_KERNEL(function) (operator/gpu_kernel.h) where there is a build without CUDA.
constexpr KernelTable::Place on_gpu(Kernel kernel) noexcept {
  return {DeviceKind::gpu, kernel};
}

using Composition = Arrays (*)(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);
/// Gradients, one an input; undefined where not wanted or none.
using Gradient = Arrays (*)(const GradientCall& call);
/// Where a view of an array of geometry `input` lies; no task, no copy, and no array is needed. `like` is the shape of
/// the second input of a view that has one, otherwise null. Throws where there is no such view.
using ViewOf = Geometry (*)(const Operator& op, const Geometry& input, const Shape* like, const Attributes& attributes);
using Issue = void (*)(const IssueCall& call);
using RandomCounters = std::uint64_t (*)(std::span<const ArraySpec> outputs, const Attributes& attributes);

/// Bit i = input or output i.
using Mask = std::uint32_t;
inline constexpr Mask k_all = ~Mask{0};
inline constexpr Mask k_none = 0;

/// Which inputs, or outputs, the gradients of the `wanted` inputs (bit i = input i) read.
using SavedFor = Mask (*)(Mask wanted, const Attributes& attributes);

/// Whether a call with `inputs` inputs writes input `i`.
using Mutates = bool (*)(std::size_t i, std::size_t inputs, const Attributes& attributes);

/// Whether the kernel takes strided input `i`, of that shape and those strides (elements), as it lies.
using TakesStrides = bool (*)(std::size_t i, const Shape& shape, const Shape& strides);

/// The attributes of the same call of half inputs, but with results as of inputs that were cast to float32.
using Widened = Attributes (*)(const Attributes& attributes);

/// In which order the arrays of a call on a GPU that have four axes should lie.
using OrderOf = MemoryOrder (*)(std::span<const NDArray> inputs, const Attributes& attributes);

/// Everything known of one operator. A constant per operator, listed in operator/registry.cpp by name: no string
/// look-up on the way of a call, no registration at start-up.
///
/// invoke() looks for what issues, then for the kernel of the arrays' device kind, then for a composition, and
/// otherwise throws UnsupportedError. A composition records its own operators, unless the operator has a gradient: then
/// it is one node on the tape. Of all operators but views inference says what a call gives before anything runs.
struct Operator {
  const char* name;
  int inputs = 1;   // -1: any number
  int outputs = 1;  // -1: as many as infer returns, 0: it writes inputs alone
  const AttributeType* attributes = &attribute_type<NoAttributes>;
  bool optional_attributes = false;  // a call may come without: the kernel asks
  Normalise normalise = nullptr;     // set: a call is brought to its normal form first
  Infer infer = nullptr;
  Alike alike = nullptr;     // set: what normalise and infer say where all inputs are alike, at a glance
  KernelTable kernels = {};  // {on_cpu(...), on_gpu(...)}
  Composition composition = nullptr;
  ViewOf view = nullptr;        // set: the operator is a view, nothing else of the above is used
  Issue issue = nullptr;        // set: pushes its tasks itself, on any device; infer says where outputs are
  Gradient gradient = nullptr;  // null: not differentiable, results are off the tape
  Mask saved_inputs = k_none;   // what gradient reads
  Mask saved_outputs = k_none;
  Mask mutated_inputs = k_none;     // inputs that the kernel also writes (running statistics, weights of an update)
  Mask strided_inputs = k_none;     // inputs the kernel takes with any strides; others are made contiguous first
  bool strided_outputs = false;     // the kernel writes outputs with any strides
  bool capturable = true;           // gives the same of the same inputs, without side effects on the host
  RandomCounters random = nullptr;  // set: the kernel takes that many random counters
  /// The kernel may write an output over an input of the same geometry. It computes and nothing else, on a CPU without
  /// waiting and without locks: short calls run it where they are made.
  bool elementwise = false;
  /// The same as to short calls: what it does on a CPU takes time that goes with the elements that it reads and writes.
  bool prompt = false;
  SavedFor saved_for = nullptr;          // set: saves these of saved_inputs only
  TakesStrides takes_strides = nullptr;  // set: strided_inputs only where it says so
  Mutates mutates = nullptr;   // set: says in mutated_inputs' place what issue writes, of any number of inputs
  int state_input = -1;        // input, if a call has so many, that holds seed and offset of random numbers
  Mask shape_inputs = k_none;  // inputs of which shape, type and device matter alone: nobody reads their data
  OrderOf order = nullptr;     // set: GPU arrays of four axes lie so: inputs (copied, or by takes_strides), outputs
  SavedFor saved_outputs_for = nullptr;  // set: saves these of saved_outputs only
  Widened widened = nullptr;             // set: amp::autocast() calls it so in the place of casting to float32
};

/// All operators by name, those of plugins too, for tools (listing, parsing a graph file).
SLUICE_API std::vector<const Operator*> operators();
/// The operator of that name, or of NumPy's for it (`var`: see docs/operators.md); null if there is none.
SLUICE_API const Operator* find_operator(std::string_view name);
/// Adds an operator, of a plugin say: operators() and find_operator() then know it, and invoke() takes it like any
/// other. It may be of a type derived from Operator: kernel, inference and gradient are given it, with its state. It is
/// kept to the end of the process, so that tape, tasks and plans may name it: a shared object that it lies in must not
/// be closed. Throws ValueError where it has no name, one that is taken or has spaces, quotes or '=' in it, nothing
/// that computes, a kernel without inference, numbers of inputs or outputs that cannot be, or asks to keep or to write
/// inputs and outputs that there are not. What it gives is to depend on its inputs and attributes
/// alone, or on random numbers that it says it takes: plans keep what comes of constants alone (PlanOptions::
/// keep_derived). One that looks at more says capturable = false, and runs each time. Any thread may call this.
SLUICE_API void register_operator(std::shared_ptr<const Operator> op);
/// Gives an operator that is there a kernel for a kind of device that it has none for: so a third kind of device joins,
/// or a GPU the operators that are for CPUs alone. invoke() looks for it after the operator's own kernels and before
/// its composition; but where an input is on the tape and recorded, and the operator has no gradient of its own, the
/// composition is taken, whose operators have theirs. It stays to the end of the process: a shared object that the
/// kernel lies in must not be closed. Throws ValueError where no operator has that name, where there is such a kernel
/// already, and for an operator that cannot have one: a view, one that pushes its tasks itself, one without inference.
/// Any thread may call this.
SLUICE_API void register_kernel(std::string_view op, DeviceKind kind, Kernel kernel);

}  // namespace sluice
