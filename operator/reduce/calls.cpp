#include <type_traits>

#include <sluice/operator/detail/families.h>
#include <sluice/operator/reduce/calls.h>

namespace sluice::detail {

namespace {

struct RowFacts {
  std::string_view name;
  ReduceTypes types;
  bool takes_ddof;
};

constexpr RowFacts k_rows[] = {
#define REDUCTION(row, ...)             \
  {ReductionRow<Reduction::row>::name,  \
   ReductionRow<Reduction::row>::types, \
   std::is_same_v<ReductionRow<Reduction::row>::Attributes, MomentAttributes>},
#include <sluice/operator/reduce/reduce.def>
#undef REDUCTION
};

const RowFacts& facts_of(Reduction row) noexcept {
  return k_rows[static_cast<std::size_t>(row)];
}

}  // namespace

std::optional<Reduction> row_named(std::string_view name) noexcept {
  for (std::size_t row = 0; row < std::size(k_rows); ++row) {
    if (k_rows[row].name == name)
      return static_cast<Reduction>(row);
  }
  return std::nullopt;
}

const Operator& operator_of(Reduction row) noexcept {
  return *reduce_operators()[static_cast<std::size_t>(row)];  // the rows stand first
}

bool reads(Reduction row, DType dtype) noexcept {
  return facts_of(row).types != ReduceTypes::real || is_floating(dtype);
}

bool takes_ddof(Reduction row) noexcept {
  return facts_of(row).takes_ddof;
}

std::optional<ReductionCall> reduction_call(const Operator& op, const Attributes& attributes) {
  const auto row = row_named(op.name);
  if (!row || &operator_of(*row) != &op)
    return std::nullopt;
  if (takes_ddof(*row)) {
    const auto& told = attributes.as<MomentAttributes>();
    return ReductionCall{*row, told.axes, told.keepdims, told.ddof};
  }
  const auto& told = attributes.as<ReduceAttributes>();
  return ReductionCall{*row, told.axes, told.keepdims};
}

Attributes attributes_of(const ReductionCall& reduction) {
  if (takes_ddof(reduction.row))
    return Attributes::of(MomentAttributes{reduction.axes, reduction.keepdims, reduction.ddof});
  return Attributes::of(ReduceAttributes{reduction.axes, reduction.keepdims});
}

namespace {

ReduceSettings settings_of(const ReductionCall& reduction, const TensorView& x) {
  ReduceSettings settings{reduction.axes, 1, static_cast<double>(reduction.ddof)};
  for (const std::int64_t axis : reduction.axes)
    settings.terms *= static_cast<double>(x.shape[static_cast<int>(axis)]);
  return settings;
}

}  // namespace

void reduce_made_on_cpu(const ReductionCall& reduction, const KernelCall& call, const MadeTerms* made) {
  const TensorView& x = call.inputs[0];
  ReduceSettings settings = settings_of(reduction, x);
  settings.made = made;
  by_dtype(x.dtype, [&]<class T>() { reduce_type_on_cpu<T>(reduction.row, call, settings); });
}

#if SLUICE_CUDA
// A bool is read as the byte that it is.
void reduce_made_on_gpu(const ReductionCall& reduction, const KernelCall& call, const MadeOnGpu* made) {
  const TensorView& x = call.inputs[0];
  ReduceSettings settings = settings_of(reduction, x);
  settings.made_on_gpu = made;
  by_dtype(x.dtype, [&]<class T>() {
    using Read = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    reduce_type_on_gpu<Read>(reduction.row, call, settings);
  });
}
#endif

}  // namespace sluice::detail
