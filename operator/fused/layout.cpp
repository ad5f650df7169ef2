#include <algorithm>

#include <sluice/operator/fused/layout.h>

namespace sluice::fused {

namespace {

using Plan = sluice::detail::StridedPlan<k_operands>;

/// Whether every operand has its neighbours in a row, or one element for all of them, and rows begin where vectors do.
bool goes_in_vectors(const Args& args, int operands, int results, int V) noexcept {
  const Plan& plan = args.plan;
  const int inner = plan.ndim - 1;
  for (int k = 0; k < operands; ++k) {
    const std::int64_t step = plan.strides[k][inner];
    if (step != 1 && (step != 0 || k < results))
      return false;
    if (step == 0)
      continue;
    const std::size_t bytes = size_of(args.dtypes[k]) * static_cast<std::size_t>(V);
    if (reinterpret_cast<std::uintptr_t>(args.data[k]) % bytes != 0)
      return false;
    for (int axis = 0; axis < inner; ++axis) {
      if (plan.strides[k][axis] % V != 0)
        return false;
    }
  }
  return true;
}

/// The words of the layout of K operands, in their order.
class Words {
 public:
  Words(Layout& layout, int operands) : words_(layout.words.data()), operands_(operands) {}

  void head(std::int64_t size, std::int64_t total, std::int64_t streams, int ndim, std::uint32_t repeated) noexcept {
    words_[0] = static_cast<std::uint32_t>(size);
    words_[1] = static_cast<std::uint32_t>(total);
    words_[2] = static_cast<std::uint32_t>(streams);
    words_[3] = static_cast<std::uint32_t>(ndim);
    words_[4] = repeated;
  }
  void extent(int axis, std::int64_t extent) noexcept {
    const Division by = division_by(std::max<std::int64_t>(extent, 1));
    std::uint32_t* const to = words_ + 5 + 3 * axis;
    to[0] = by.divisor, to[1] = by.multiplier, to[2] = by.shift;
  }
  void next(int operand, std::int64_t step) noexcept {
    words_[5 + 3 * k_max_ndim + operand] = static_cast<std::uint32_t>(step);
  }
  void stride(int operand, int axis, std::int64_t stride) noexcept {
    words_[5 + 3 * k_max_ndim + operands_ + operand * k_max_ndim + axis] = static_cast<std::uint32_t>(stride);
  }
  /// Of the operands of the plan from number `first` on.
  void geometry(const Plan& plan, int first = 0) noexcept {
    for (int axis = 0; axis < plan.ndim; ++axis) {
      extent(axis, plan.extents[axis]);
      for (int k = 0; k < operands_; ++k)
        stride(k, axis, plan.strides[first + k][axis]);
    }
  }

 private:
  std::uint32_t* words_;
  int operands_;
};

Layout in_vectors(const Args& args, int operands, int V) noexcept {
  Layout layout;
  Plan plan = args.plan;
  const int inner = plan.ndim - 1;
  std::uint32_t repeated = 0;
  for (int k = 0; k < operands; ++k) {
    if (plan.strides[k][inner] == 0)
      repeated |= 1u << k;
    plan.strides[k][inner] *= V;
  }
  plan.extents[inner] /= V;
  layout.walk = plan.ndim == 1 ? Walk::flat : Walk::vectors;
  layout.threads = plan.size / V;
  Words words(layout, operands);
  words.head(layout.threads, 0, 0, plan.ndim, repeated);
  words.geometry(plan);
  return layout;
}

// The outermost axis is cut in `several` parts, of which a thread takes an element each.
Layout in_streams(const Args& args, int operands, int several) noexcept {
  Layout layout;
  Plan plan = args.plan;
  const std::int64_t extent = plan.extents[0], part = (extent + several - 1) / several;
  plan.extents[0] = part;
  layout.walk = Walk::streams;
  layout.threads = plan.size / extent * part;
  Words words(layout, operands);
  words.head(layout.threads, plan.size, (extent + part - 1) / part, plan.ndim, 0);
  words.geometry(plan);
  for (int k = 0; k < operands; ++k)
    words.next(k, part * plan.strides[k][0]);
  return layout;
}

}  // namespace

Division division_by(std::int64_t divisor) noexcept {
  // Granlund and Montgomery, "Division by invariant integers using multiplication", 1994; as in ndarray/strided.cuh.
  Division by{static_cast<std::uint32_t>(divisor), 1, 0};
  while (by.shift < 31 && (std::uint64_t{1} << by.shift) < by.divisor)
    ++by.shift;
  const std::uint64_t excess = (std::uint64_t{1} << by.shift) - by.divisor;
  by.multiplier = static_cast<std::uint32_t>((excess << 32) / by.divisor + 1);
  return by;
}

Args args_of(const char* op, std::span<const TensorView> results, std::span<const TensorView> inputs) {
  Args args;
  const Shape& shape = results[0].shape;
  std::array<Shape, k_operands> stretched;
  std::array<const Shape*, k_operands> strides;
  const Shape none = Shape::filled(shape.ndim(), 0);
  strides.fill(&none);
  args.is_constant.fill(true);
  bool one_run = true;
  std::size_t k = 0;
  const auto add = [&](const TensorView& view) {
    args.data[k] = view.as<std::byte>();
    args.dtypes[k] = view.dtype;
    args.is_constant[k] = false;
    const bool is_whole = view.shape == shape;
    if (!is_whole)
      stretched[k] = sluice::broadcast_strides(view.shape, view.strides, shape, op);
    strides[k] = is_whole ? &view.strides : &stretched[k];
    one_run = one_run && is_whole && view.contiguous;
    ++k;
  };
  for (const TensorView& output : results)
    add(output);
  for (const TensorView& input : inputs)
    add(input);
  if (!one_run) {
    args.plan = sluice::detail::plan_strided<k_operands>(shape, strides, sluice::detail::AxisOrder::free);
    return args;
  }
  args.plan.extents[0] = args.plan.size = results[0].size;
  for (std::size_t at = 0; at < k; ++at)
    args.plan.strides[at][0] = 1;
  return args;
}

bool is_turned(const Args& args, int k) noexcept {
  constexpr std::int64_t k_worth_a_copy = 1 << 16, k_long = 16;
  const Plan& plan = args.plan;
  const std::int64_t step = plan.inner_stride(k);
  if (plan.size < k_worth_a_copy || plan.inner() < k_long || plan.inner_stride(0) != 1 || step == 0 || step == 1)
    return false;
  for (int axis = 0; axis + 1 < plan.ndim; ++axis) {
    if (plan.strides[k][axis] == 1 && plan.extents[axis] >= k_long)
      return true;
  }
  return false;
}

TermsLayout terms_layout_of(const Args& args, int inputs, int vector) {
  const Plan& plan = args.plan;
  // In one run of neighbours vectors begin at whole ones of them anyway, and what is left of it is read one by one.
  const bool is_whole = plan.ndim == 1 || plan.inner() % vector == 0;
  TermsLayout terms{.together = is_whole && goes_in_vectors(args, 1 + inputs, 1, vector)};
  std::uint32_t repeated = 0;
  for (int k = 0; k < inputs; ++k) {
    if (plan.inner_stride(1 + k) == 0)
      repeated |= 1u << k;
  }
  Words words(terms.layout, inputs);
  words.head(plan.size, plan.size, 1, plan.ndim, repeated);
  words.geometry(plan, 1);
  return terms;
}

Layout layout_of(const Args& args, const KernelSource& source) {
  const bool is_whole = args.plan.inner() % source.neighbours == 0;
  return is_whole && goes_in_vectors(args, source.operands, source.results, source.neighbours)
             ? in_vectors(args, source.operands, source.neighbours)
             : in_streams(args, source.operands, source.several);
}

}  // namespace sluice::fused
