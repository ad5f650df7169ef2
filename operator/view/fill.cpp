// Arrays of one number, and ranges: what ndarray declares of them and operators do.
#include <cmath>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/attributes.h>
#include <sluice/operator/view/range.h>

namespace sluice {

namespace {

struct FillAttributes {
  Scalar value = 0;

  template <class V>
  void visit(V&& v) {
    v.field("value", value);
  }
};

struct FullAttributes {
  Shape shape;
  DType dtype = DType::float32;
  Device device = cpu();
  Scalar value = 0;

  template <class V>
  void visit(V&& v) {
    v.field("shape", shape);
    v.field("dtype", dtype);
    v.field("device", device);
    v.field("value", value);
  }
};

Specs infer_fill(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_fits(op.name, attributes.as<FillAttributes>().value, inputs[0].dtype);
  return {inputs[0]};
}

void push_fill(const IssueCall& call, Scalar value) {
  detail::push_fill(call.outputs[0], value, call.site, call.made ? detail::CopyTo::made : detail::CopyTo::known);
}

void issue_fill(const IssueCall& call) {
  push_fill(call, call.attributes.as<FillAttributes>().value);
}

Specs infer_full(const Operator& op, std::span<const ArraySpec>, const Attributes& attributes) {
  const auto& a = attributes.as<FullAttributes>();
  detail::check_fits(op.name, a.value, a.dtype);
  return {{a.shape, a.dtype, a.device}};
}

void issue_full(const IssueCall& call) {
  push_fill(call, call.attributes.as<FullAttributes>().value);
}

Specs infer_range(const Operator&, std::span<const ArraySpec>, const Attributes& attributes) {
  const auto& a = attributes.as<detail::RangeAttributes>();
  require<ValueError>(std::isfinite(a.start) && std::isfinite(a.stop) && std::isfinite(a.step) && a.step != 0, [&] {
    return message("arange: from ", a.start, " to ", a.stop, " in steps of ", a.step, " is not a finite range");
  });
  const double count = std::max(0.0, std::ceil((a.stop - a.start) / a.step));
  require<ValueError>(
      count < 0x1p62, [&] { return message("arange: ", count, " elements are more than can be counted"); });
  return {{{static_cast<std::int64_t>(count)}, a.dtype, a.device}};
}

void range_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<detail::RangeAttributes>();
  const TensorView& to = call.outputs[0];
  by_any_dtype(to.dtype, [&]<class T>() {
    parallel_for(to.size, 16384, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to.as<T>()[i] = detail::range_entry<T>(a.start, a.step, i);
    });
  });
}

Arrays make_pinned(const Operator& op, const Attributes& attributes, const ArrayOptions& options, SourceLocation site) {
  const NDArray to = empty(infer(op, {}, attributes)[0].shape, options);
  return invoke(op, {}, attributes, site, {&to, 1});
}

// Memory of a kind other than what results usually have is allocated here; without anybody to run, it is all one.
NDArray made(const Operator& op, const Attributes& attributes, const ArrayOptions& options, SourceLocation site) {
  if ((options.pinned || options.copied_into) && detail::sink_here() == nullptr)
    return make_pinned(op, attributes, options, site)[0];
  return invoke(op, {}, attributes, site)[0];
}

NDArray filled_like(const char* name, const NDArray& array, Scalar value, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(array, name);
    return invoke_one(detail::k_fill, {array}, Attributes::of(FillAttributes{value}), site);
  });
}

}  // namespace

const Operator detail::k_fill{
    .name = "fill",
    .attributes = &attribute_type<FillAttributes>,
    .infer = infer_fill,
    .issue = issue_fill,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .shape_inputs = k_all};
const Operator detail::k_full{
    .name = "full",
    .inputs = 0,
    .attributes = &attribute_type<FullAttributes>,
    .infer = infer_full,
    .issue = issue_full,
    .strided_outputs = true};
const Operator detail::k_arange{
    .name = "arange",
    .inputs = 0,
    .attributes = &attribute_type<RangeAttributes>,
    .infer = infer_range,
    .kernels = {on_cpu(range_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::range_gpu))},
    .prompt = true};

void fill(const NDArray& array, Scalar value, SourceLocation site) {
  detail::located(site, [&] {
    detail::object_of(array, "fill");
    const autograd::ModeScope unrecorded(false, autograd::is_training());
    invoke(detail::k_fill, {&array, 1}, Attributes::of(FillAttributes{value}), site, {&array, 1});
  });
}

NDArray full(const Shape& shape, Scalar value, const ArrayOptions& options, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    return made(
        detail::k_full, Attributes::of(FullAttributes{shape, options.dtype, options.device, value}), options, site);
  });
}

NDArray zeros(const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return full(shape, 0, options, site);
}

NDArray ones(const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return full(shape, 1, options, site);
}

NDArray zeros_like(const NDArray& array, SourceLocation site) {
  return filled_like("zeros_like", array, 0, site);
}

NDArray ones_like(const NDArray& array, SourceLocation site) {
  return filled_like("ones_like", array, 1, site);
}

NDArray full_like(const NDArray& array, Scalar value, SourceLocation site) {
  return filled_like("full_like", array, value, site);
}

NDArray arange(double start, double stop, double step, const ArrayOptions& options, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const detail::RangeAttributes range{start, stop, step, options.dtype, options.device};
    return made(detail::k_arange, Attributes::of(range), options, site);
  });
}

}  // namespace sluice
