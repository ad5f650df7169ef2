#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// Shape, type and place of an array, without its data: what inference works on.
struct ArraySpec {
  Shape shape = {};
  DType dtype = DType::float32;
  Device device = cpu();
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

/// Walks the fields of an attribute struct: for trace keys, export, parsing from text and printing.
class AttributeVisitor {
 public:
  virtual ~AttributeVisitor() = default;
  virtual void field(const char* name, bool& value) = 0;
  virtual void field(const char* name, std::int64_t& value) = 0;
  virtual void field(const char* name, double& value) = 0;
  virtual void field(const char* name, std::string& value) = 0;
  virtual void field(const char* name, Shape& value) = 0;
  virtual void field(const char* name, DType& value) = 0;
};

/// The attributes of one call, shared and immutable. `A` is a plain struct with
/// `template <class V> void visit(V&& v) { v.field("axis", axis); ... }`.
class Attributes {
 public:
  Attributes() = default;
  template <class A>
  static Attributes of(A value) {
    Attributes made;
    made.box_ = std::make_shared<BoxOf<A>>(std::move(value));
    return made;
  }
  /// The struct that was put in. The operator knows its own type.
  template <class A>
  const A& as() const noexcept {
    return static_cast<const BoxOf<A>&>(*box_).value;
  }
  void visit(AttributeVisitor& visitor) const {
    if (box_ != nullptr)
      box_->visit(visitor);
  }
  bool empty() const noexcept { return box_ == nullptr; }

 private:
  struct Box {
    virtual ~Box() = default;
    virtual void visit(AttributeVisitor& visitor) = 0;
  };
  template <class A>
  struct BoxOf final : Box {
    explicit BoxOf(A v) : value(std::move(v)) {}
    void visit(AttributeVisitor& visitor) override { value.visit(visitor); }
    A value;
  };
  std::shared_ptr<Box> box_;
};

/// Attributes of operators that have none.
struct NoAttributes {
  template <class V>
  void visit(V&&) {}
};

using Specs = boost::container::small_vector<ArraySpec, 3>;
using Arrays = boost::container::small_vector<NDArray, 3>;

/// One run of a kernel, inside its task. On a GPU the kernel enqueues on queue.stream() and returns.
struct KernelCall {
  Queue queue;
  std::span<const TensorView> inputs = {};
  std::span<const TensorView> outputs = {};
  const Attributes& attributes;
  RandomBlock random = {};  // set if the operator asked for random numbers
};

/// One pull of a gradient: all as arrays, to be combined with operators. Inputs and outputs that the operator did
/// not ask to save are undefined.
struct GradientCall {
  std::span<const NDArray> inputs = {};
  std::span<const NDArray> outputs = {};
  std::span<const NDArray> output_grads = {};  // undefined = zero
  const Attributes& attributes;
  RandomBlock random = {};                      // what forward used
  std::span<const bool> wanted = {};            // per input
  std::span<const ArraySpec> input_specs = {};  // known even where the input was not saved
};

using Infer = Specs (*)(std::span<const ArraySpec> inputs, const Attributes& attributes);
using Kernel = void (*)(const KernelCall& call);
using Composition = Arrays (*)(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);
/// Gradients, one an input; undefined where not wanted or none.
using Gradient = Arrays (*)(const GradientCall& call);
/// A view of the one input; no task, no copy.
using ViewOf = NDArray (*)(const NDArray& input, const Attributes& attributes);
using RandomCounters = std::uint64_t (*)(std::span<const ArraySpec> outputs, const Attributes& attributes);

/// Bit i = input or output i.
using Mask = std::uint32_t;
inline constexpr Mask k_all = ~Mask{0};
inline constexpr Mask k_none = 0;

/// Which inputs the gradients of the `wanted` inputs (bit i = input i) read.
using SavedFor = Mask (*)(Mask wanted, const Attributes& attributes);

/// Everything known of one operator. A constant per operator, listed in operator/registry.cpp by name: no string
/// look-up on the way of a call, no registration at start-up.
///
/// invoke() looks for the kernel of the arrays' device kind, then for a composition, then throws UnsupportedError. A
/// composition records its own operators, unless the operator has a gradient: then it is one node on the tape.
struct Operator {
  const char* name;
  int inputs = 1;   // -1: any number
  int outputs = 1;  // -1: as many as infer returns
  Infer infer = nullptr;
  Kernel cpu = nullptr;
  Kernel gpu = nullptr;
  Composition composition = nullptr;
  ViewOf view = nullptr;        // set: the operator is a view, nothing else of the above is used
  Gradient gradient = nullptr;  // null: not differentiable, results are off the tape
  Mask saved_inputs = k_none;   // what gradient reads
  Mask saved_outputs = k_none;
  Mask mutated_inputs = k_none;     // inputs that the kernel also writes (running statistics, weights of an update)
  Mask strided_inputs = k_none;     // inputs the kernel takes with any strides; others are made contiguous first
  bool strided_outputs = false;     // the kernel writes outputs with any strides
  bool library_team = false;        // CPU kernel calls a library that brings its own threads
  bool capturable = true;           // GPU kernel has no host side effects
  RandomCounters random = nullptr;  // set: the kernel takes that many random counters
  bool elementwise = false;         // the kernel may write an output over an input of the same geometry
  SavedFor saved_for = nullptr;     // set: saves these of saved_inputs only

  Kernel kernel(DeviceKind kind) const noexcept { return kind == DeviceKind::gpu ? gpu : cpu; }
};

/// All operators by name, for tools (listing, parsing a graph file).
SLUICE_API std::span<const Operator* const> operators() noexcept;

}  // namespace sluice
