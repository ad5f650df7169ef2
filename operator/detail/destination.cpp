#include <sluice/engine/detail/engine_access.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/graph/detail/kept_results.h>
#include <sluice/operator/matmul/activation_bias.h>
#include <sluice/operator/norm/add_norm.h>
#include <sluice/operator/norm/norm.h>
#include <sluice/operator/softmax/kernels.h>

namespace sluice::detail {

namespace {

bool same_geometry(const NDArray& a, const NDArray& b) noexcept {
  const ArrayObject &x = *a.object(), &y = *b.object();
  return x.buffer == y.buffer && x.offset == y.offset && x.dtype == y.dtype && x.shape == y.shape &&
         x.strides == y.strides;
}

// Arrays without memory belong to none.
bool of_one_engine(const NDArray& a, const NDArray& b) {
  const Buffer *x = a.object()->buffer, *y = b.object()->buffer;
  return x == nullptr || y == nullptr || x->maker() == y->maker() || &a.engine() == &b.engine();
}

// bool < integer < floating: a value may move up, not down.
int rank_of(DType dtype) noexcept {
  return is_floating(dtype) ? 2 : is_integer(dtype) ? 1 : 0;
}

}  // namespace

void check_inputs(const Operator& op, std::span<const NDArray> inputs) {
  require<ValueError>(op.inputs < 0 || inputs.size() == static_cast<std::size_t>(op.inputs), [&] {
    return message(op.name, ": takes ", op.inputs, " inputs, was given ", inputs.size());
  });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require<ValueError>(
        inputs[i].defined(), [&] { return message(op.name, ": input ", i, " is an undefined NDArray"); });
    require<DeviceError>(inputs[i].object()->device == inputs[0].object()->device, [&] {
      return message(
          op.name,
          ": input 0 of shape ",
          inputs[0].shape(),
          " is on ",
          inputs[0].device(),
          ", input ",
          i,
          " of shape ",
          inputs[i].shape(),
          " on ",
          inputs[i].device(),
          "; move one of them with to(device)");
    });
    require<ValueError>(i == 0 || of_one_engine(inputs[0], inputs[i]), [&] {
      return message(op.name, ": inputs 0 and ", i, " belong to different engines");
    });
  }
}

void check_in_place(const char* op, const NDArray& array, bool recorded) {
  if (!autograd::is_recording())
    return;
  const ArrayObject& object = *array.object();
  require<AutogradError>(object.variable == nullptr || object.variable->req == GradReq::null, [&] {
    return message(
        op, ": writes in place to a variable that requires a gradient while recording; do so in a PauseScope");
  });
  if (object.buffer == nullptr)
    return;
  const int users = object.buffer->use_count();
  const bool is_alone = users == 1 || (users == 2 && graph::KeptResults::any_holds(object.buffer));
  require<AutogradError>(!(recorded || autograd::on_tape(array)) || is_alone, [&] {
    return message(
        op,
        ": writes in place to an array of shape ",
        object.shape,
        " whose memory other arrays see (views, or values kept for backward) while recording; b = b + 1 makes a new "
        "array where b += 1 writes, and for b[i] += 1, which writes through a view, b.add_at({i}, values) and "
        "b.assign({i}, values) write to b and are recorded");
  });
}

void check_seen(std::string_view op, const NDArray& temporary, std::string_view instead, SourceLocation site) {
  if (!temporary.defined() || !temporary.object()->is_indexed) [[likely]]
    return;
  located(site, [&] {
    throw ValueError(message(
        op,
        ": what index arrays or a mask name is a copy, of shape ",
        temporary.object()->shape,
        ", and what is written to it is lost; ",
        instead));
  });
}

void check_not_frozen(const char* op, const ArrayObject& object) {
  const bool known =
      object.buffer != nullptr && object.buffer->regions().size() == 1;  // of several the push knows which
  require<ValueError>(!known || !EngineAccess::is_frozen(object.buffer->var()), [&] {
    return message(
        op, ": writes to an array of shape ", object.shape, " whose Var is frozen, as read-only memory's is");
  });
}

void check_writable(const char* op, const NDArray& array) {
  const ArrayObject& object = *array.object();
  check_not_frozen(op, object);
  require<ValueError>(!overlaps_itself(object), [&] {
    return message(
        op, ": cannot write to a broadcast view of shape ", object.shape, ", whose elements share memory; copy() it");
  });
}

void check_takes(const char* op, const NDArray& destination, const ArraySpec& spec) {
  require<ShapeError>(destination.object()->shape == spec.shape, [&] {
    return message(
        op, ": a result of shape ", spec.shape, " does not fit a destination of shape ", destination.shape());
  });
  require<DTypeError>(rank_of(spec.dtype) <= rank_of(destination.dtype()), [&] {
    return message(op, ": a ", spec.dtype, " result cannot be written to an array of ", destination.dtype());
  });
}

bool overlaps(const NDArray& a, const NDArray& b) noexcept {
  const ArrayObject &x = *a.object(), &y = *b.object();
  if (x.buffer != y.buffer)
    return false;
  const ByteRange first = reach_of(x), second = reach_of(y);
  return first.begin < second.end && second.begin < first.end;
}

bool writes_over(const Operator& op, std::size_t input, std::size_t result) noexcept {
  constexpr std::size_t k_gradient = 2, k_let_through = 3;
  // dx is written behind the sums, of x and dy, or what comes of dy, at the same place.
  const bool adds = &op == &batch_norm_add_relu_backward_op;
  if (result == 0 && input < 2 && (adds || &op == &batch_norm_backward_op || &op == &batch_norm_relu_backward_op))
    return true;
  // Sums of two arrays, that in front of a norm behind its other results.
  if (&op == &add_layer_norm_op || &op == &add_rms_norm_op)
    return input < 2 && result + 1 == static_cast<std::size_t>(op.outputs);
  // Of the sum of two gradients the second one is read where the sum is written.
  if (&op == &add_layer_norm_backward_op || &op == &add_rms_norm_backward_op)
    return result == 0 && input + 1 == static_cast<std::size_t>(op.inputs);
  if (adds)
    return (input == 0 || input >= 5) && (result == 0 || result == k_let_through);
  // Whoever writes an element of dx is who has read those of dy and x at its place.
  if (gives_bias_sum(&op))
    return result == 0;
  return op.elementwise || (&op == &k_softmax_cross_entropy_both && input == 0 && result == k_gradient);
}

bool is_direct(
    const Operator& op,
    std::size_t result,
    const NDArray& destination,
    const ArraySpec& spec,
    MemoryOrder order,
    std::span<const NDArray> inputs) noexcept {
  if (destination.dtype() != spec.dtype || destination.device() != spec.device)
    return false;
  const ArrayObject& object = *destination.object();
  const bool as_made = order != MemoryOrder::row_major && is_in_order(object.shape, object.strides, order);
  if (!object.contiguous && !as_made && (!op.strided_outputs || runs_backwards(object)))
    return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (overlaps(destination, inputs[i]) && !(writes_over(op, i, result) && same_geometry(destination, inputs[i])))
      return false;
  }
  return true;
}

AccessMode write_mode(const NDArray& array) noexcept {
  const ArrayObject& object = *array.object();
  const auto bytes = static_cast<std::size_t>(object.size) * size_of(object.dtype);
  const bool covers =
      object.is_all || (object.offset == 0 && object.contiguous && bytes >= object.buffer->chunk().requested);
  return covers ? AccessMode::out : AccessMode::write;
}

}  // namespace sluice::detail
