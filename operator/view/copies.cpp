// Copies that the tape sees: astype, to, copy, contiguous, assign.
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

using detail::DeviceAttribute;
using detail::TypeAttribute;

NDArray copied_to(const NDArray& from, DType dtype, Device device, SourceLocation site) {
  const NDArray result = detail::make_empty(
      from.engine(), from.shape(), {.dtype = dtype, .device = device, .copied_into = device != from.device()});
  copy_into(from, result, site);
  return result;
}

Arrays cast(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return {copied_to(inputs[0], attributes.as<TypeAttribute>().dtype, inputs[0].device(), site)};
}
Arrays cast_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? dy.astype(call.input_specs[0].dtype) : NDArray()};
}

Arrays to_device(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  return {copied_to(inputs[0], inputs[0].dtype(), attributes.as<DeviceAttribute>().device, site)};
}
Arrays to_device_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? dy.to(call.input_specs[0].device) : NDArray()};
}

Arrays copy_whole(std::span<const NDArray> inputs, const Attributes&, SourceLocation site) {
  return {copied_to(inputs[0], inputs[0].dtype(), inputs[0].device(), site)};
}
Arrays copy_gradient(const GradientCall& call) {
  return {call.output_grads[0]};
}

}  // namespace

const Operator detail::k_cast{
    .name = "astype", .attributes = &attribute_type<TypeAttribute>, .composition = cast, .gradient = cast_gradient};
const Operator detail::k_to_device{
    .name = "to",
    .attributes = &attribute_type<DeviceAttribute>,
    .composition = to_device,
    .gradient = to_device_gradient};
const Operator detail::k_copy{.name = "copy", .composition = copy_whole, .gradient = copy_gradient};

NDArray NDArray::astype(DType to, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    if (detail::object_of(*this, "astype").dtype == to)
      return *this;
    return invoke_one(detail::k_cast, {*this}, Attributes::of(TypeAttribute{to}), site);
  });
}

NDArray NDArray::to(Device device, SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    if (detail::object_of(*this, "to").device == device)
      return *this;
    const DeviceAttribute attribute{device};
    return invoke_one(detail::k_to_device, {*this}, Attributes::of(attribute), site);
  });
}

NDArray NDArray::copy(SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(*this, "copy");
    return invoke_one(detail::k_copy, {*this}, {}, site);
  });
}

NDArray NDArray::contiguous(SourceLocation site) const {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(*this, "contiguous");
    return is_contiguous() ? *this : copy(site);
  });
}

// The value is brought to this array's shape, type and device by operators that the tape sees; what remains is a plain
// copy, after which this array stands on the tape where the value stands.
const NDArray& NDArray::assign(const NDArray& value, SourceLocation site) const {
  return detail::located(site, [&]() -> const NDArray& {
    detail::object_of(*this, "assign");
    require<ValueError>(value.defined(), [] { return "assign: the value is an undefined NDArray"; });
    detail::check_writable("assign", *this);
    const bool recorded = autograd::is_recording() && autograd::on_tape(value) && is_floating(dtype());
    detail::check_in_place("assign", *this, recorded);
    NDArray brought = value;
    if (recorded)
      brought = brought.to(device(), site).astype(dtype(), site);
    if (brought.shape() != shape())
      brought = brought.broadcast_to(shape(), site);
    copy_into(brought, *this, site);
    if (autograd::is_recording() && (recorded || autograd::on_tape(*this))) {
      const autograd::Entry entry = recorded ? autograd::entry_of(brought) : autograd::Entry{};
      autograd::set_entry(*this, entry.node, entry.index);
    }
    return *this;
  });
}

const NDArray& NDArray::assign(Scalar value, SourceLocation site) const {
  return detail::located(site, [&]() -> const NDArray& {
    detail::object_of(*this, "assign");
    detail::check_writable("assign", *this);
    detail::check_in_place("assign", *this, false);
    detail::check_fits("assign", value, dtype());
    fill(*this, value, site);
    if (autograd::is_recording() && autograd::on_tape(*this))
      autograd::set_entry(*this, {}, 0);
    return *this;
  });
}

}  // namespace sluice
