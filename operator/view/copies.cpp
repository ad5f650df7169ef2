// Copies: astype, to, copy, contiguous and assign, which the tape sees, and copy_into.
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/numbers.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/attributes.h>

namespace sluice {

namespace {

using detail::CopyAttributes;
using detail::DeviceAttribute;
using detail::TypeAttribute;

void issue_copy(const IssueCall& call) {
  detail::push_copy(
      call.inputs[0], call.outputs[0], call.site, call.made ? detail::CopyTo::made : detail::CopyTo::known);
}

Specs infer_cast(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = inputs[0];
  spec.dtype = attributes.as<TypeAttribute>().dtype;
  return {spec};
}
Arrays cast_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? dy.astype(call.input_specs[0].dtype) : NDArray()};
}

Specs infer_to_device(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = inputs[0];
  spec.device = attributes.as<DeviceAttribute>().device;
  return {spec};
}
Arrays to_device_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  return {dy.defined() ? dy.to(call.input_specs[0].device) : NDArray()};
}

Specs infer_copy(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec spec = inputs[0];
  if (!attributes.empty()) {
    const auto& a = attributes.as<CopyAttributes>();
    spec.dtype = a.dtype.value_or(spec.dtype);
    spec.device = a.device.value_or(spec.device);
  }
  return {spec};
}
Arrays copy_gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  const ArraySpec& from = call.input_specs[0];
  return {dy.defined() ? dy.astype(from.dtype).to(from.device) : NDArray()};
}

}  // namespace

const Operator detail::k_cast{
    .name = "astype",
    .attributes = &attribute_type<TypeAttribute>,
    .infer = infer_cast,
    .issue = issue_copy,
    .gradient = cast_gradient,
    .strided_inputs = k_all,
    .strided_outputs = true};
const Operator detail::k_to_device{
    .name = "to",
    .attributes = &attribute_type<DeviceAttribute>,
    .infer = infer_to_device,
    .issue = issue_copy,
    .gradient = to_device_gradient,
    .strided_inputs = k_all,
    .strided_outputs = true};
const Operator detail::k_copy{
    .name = "copy",
    .attributes = &attribute_type<CopyAttributes>,
    .optional_attributes = true,
    .infer = infer_copy,
    .issue = issue_copy,
    .gradient = copy_gradient,
    .strided_inputs = k_all,
    .strided_outputs = true};

const Operator detail::k_channels_last{
    .name = "channels_last",
    .infer = infer_copy,
    .issue = issue_copy,
    .gradient = copy_gradient,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .order = [](std::span<const NDArray>, const Attributes&) { return MemoryOrder::channels_last; }};

void copy_into(const NDArray& from, const NDArray& to, SourceLocation site) {
  detail::located(site, [&] {
    const Shape &source = detail::object_of(from, "copy").shape, &target = detail::object_of(to, "copy").shape;
    require<ShapeError>(source == target, [&] { return message("copy: shape ", source, " into shape ", target); });
    const autograd::ModeScope unrecorded(false, autograd::is_training());
    CopyAttributes landing;
    if (to.dtype() != from.dtype())
      landing.dtype = to.dtype();
    if (to.device() != from.device())
      landing.device = to.device();
    const bool plain = !landing.dtype && !landing.device;
    invoke(detail::k_copy, {&from, 1}, plain ? Attributes() : Attributes::of(landing), site, {&to, 1});
  });
}

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
const NDArray& NDArray::assign(const NDArray& value, SourceLocation site) const& {
  return detail::located(site, [&]() -> const NDArray& {
    detail::object_of(*this, "assign");
    require<ValueError>(value.defined(), [] { return "assign: the value is an undefined NDArray"; });
    detail::check_writable("assign", *this);
    const bool recorded = autograd::is_recording() && autograd::on_tape(value) && is_floating(dtype());
    detail::check_in_place("assign", *this, recorded);
    NDArray brought = value;
    if (recorded)
      brought = brought.to(device(), site).astype(dtype(), site);
    brought = detail::stretched_as(brought, object()->shape, "assign", site, [&] { return *this; });
    if (recorded && detail::calls_are_taken()) {  // who takes them is to see that it is
      invoke(detail::k_copy, {&brought, 1}, {}, site, {this, 1});
      return *this;
    }
    copy_into(brought, *this, site);
    if (autograd::is_recording() && (recorded || autograd::on_tape(*this))) {
      const autograd::Entry entry = recorded ? autograd::entry_of(brought) : autograd::Entry{};
      autograd::set_entry(*this, entry.node, entry.index);
    }
    return *this;
  });
}

const NDArray& NDArray::assign(Scalar value, SourceLocation site) const& {
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

NDArray NDArray::assign(const NDArray& value, SourceLocation site) && {
  detail::check_seen("assign", *this, "a.assign({..}, value) writes to a", site);
  return assign(value, site);
}

NDArray NDArray::assign(Scalar value, SourceLocation site) && {
  detail::check_seen("assign", *this, "a.assign({..}, value) writes to a", site);
  return assign(value, site);
}

}  // namespace sluice
