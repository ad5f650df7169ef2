// split: views of an array one after the other along an axis, as one call.
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include <sluice/operator/concat/concat.h>
#include <sluice/operator/concat/kernels.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/normalise.h>

namespace sluice {

namespace {

/// Into so many equal parts, or before these places.
struct SplitAttributes {
  std::int64_t axis = 0;
  std::optional<std::int64_t> parts = {};
  std::vector<std::int64_t> indices = {};

  template <class V>
  void visit(V&& v) {
    v.field("axis", axis);
    v.field("parts", parts);
    v.field("indices", indices);
  }
};

Specs infer_split(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes);
Arrays pieces_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site);

std::vector<NDArray> pieces(const NDArray& x, SplitAttributes how, SourceLocation site) {
  const Arrays made = invoke(k_split, std::span(&x, 1), Attributes::of(std::move(how)), site);
  return {made.begin(), made.end()};
}

}  // namespace

constinit const Operator k_split = {
    .name = "split",
    .outputs = -1,
    .attributes = &attribute_type<SplitAttributes>,
    .normalise = detail::normalise_axis<SplitAttributes>,
    .infer = infer_split,
    .composition = pieces_of,
};

namespace {

/// Where a piece begins and ends: counted from the back where negative, as slices count.
std::int64_t inside(std::int64_t place, std::int64_t extent) {
  return std::clamp<std::int64_t>(place < 0 ? place + extent : place, 0, extent);
}

Specs infer_split(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<SplitAttributes>();
  const Shape& shape = inputs[0].shape;
  const int axis = static_cast<int>(a.axis);
  const std::int64_t extent = shape[axis];
  Specs specs;
  ArraySpec piece = inputs[0];
  if (!a.parts) {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i <= a.indices.size(); ++i) {
      const std::int64_t end = i < a.indices.size() ? a.indices[i] : extent;
      piece.shape[axis] = std::max<std::int64_t>(0, inside(end, extent) - inside(begin, extent));
      specs.push_back(piece);
      begin = end;
    }
    return specs;
  }
  require<ValueError>(a.indices.empty(), [&] {
    return message(op.name, ": into ", *a.parts, " parts or before ", a.indices.size(), " places, not both");
  });
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // of empty ones there may be any number
  require<ValueError>(*a.parts > 0 && *a.parts <= most && extent % *a.parts == 0, [&] {
    return message(op.name, ": axis ", axis, " of shape ", shape, " does not divide into ", *a.parts, " equal parts");
  });
  piece.shape[axis] = extent / *a.parts;
  specs.assign(static_cast<std::size_t>(*a.parts), piece);
  return specs;
}

Arrays pieces_of(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();
  const auto& a = attributes.as<SplitAttributes>();
  const NDArray& x = inputs[0];
  const int axis = static_cast<int>(a.axis);
  infer_split(k_split, detail::specs_of(inputs), attributes);
  Arrays pieces;
  const auto extent = [&] { return axis == 0 ? x.shape()[0] : detail::extents_beside_batch(x)[axis]; };
  const std::int64_t each = a.parts ? extent() / *a.parts : 0;
  for (std::int64_t i = 0; i < a.parts.value_or(0); ++i)
    pieces.push_back(x.slice(axis, i * each, (i + 1) * each, 1, site));
  if (a.parts)
    return pieces;
  std::int64_t begin = 0;
  for (const std::int64_t end : a.indices) {
    pieces.push_back(x.slice(axis, begin, end, 1, site));
    begin = end;
  }
  pieces.push_back(x.slice(axis, begin, to_the_end, 1, site));
  return pieces;
}

}  // namespace

std::vector<NDArray> split(const NDArray& x, std::int64_t parts, int axis, SourceLocation site) {
  return pieces(x, {.axis = axis, .parts = parts}, site);
}

std::vector<NDArray> split(const NDArray& x, const std::vector<std::int64_t>& indices, int axis, SourceLocation site) {
  return pieces(x, {.axis = axis, .indices = indices}, site);
}

}  // namespace sluice
