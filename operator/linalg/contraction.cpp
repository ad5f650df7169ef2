#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/linalg/contraction.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/normalise.h>

namespace sluice::detail {

namespace {

bool names(const std::string& all, char axis) {
  return all.find(axis) != std::string::npos;
}

Shape extents_of(const NamedAxes& term, const std::string& axes) {
  Shape extents;
  for (const char axis : axes)
    extents.push_back(unseen_shape(term.array)[static_cast<int>(term.names.find(axis))]);
  return extents;
}

// (batch.., rows, columns) for matmul: the axes of `rows` joined, and those of `columns`; a batch of many axes too.
NDArray as_matrices(
    const NamedAxes& term,
    const std::string& batch,
    const std::string& rows,
    const std::string& columns,
    SourceLocation site) {
  constexpr std::size_t most = k_max_ndim - 2;
  const NDArray x = arranged(term, batch + rows + columns, site);
  if (rows.size() == 1 && columns.size() == 1 && batch.size() <= most)
    return x;
  Shape shape = extents_of(term, batch);
  if (batch.size() > most)
    shape = {shape.size()};
  shape.push_back(extents_of(term, rows).size());
  shape.push_back(extents_of(term, columns).size());
  return x.reshape(with_open_rows(shape), site);
}

}  // namespace

NDArray as_numbers(const NDArray& x, SourceLocation site) {
  return x.dtype() == DType::bool_ ? x.astype(multiplied(x.dtype()), site) : x;
}

NDArray arranged(const NamedAxes& term, const std::string& names, SourceLocation site) {
  Shape order;
  bool moved = false;
  for (const char axis : names) {
    const std::size_t at = term.names.find(axis);
    if (at == std::string::npos)
      continue;
    moved = moved || static_cast<int>(at) != order.ndim();
    order.push_back(static_cast<std::int64_t>(at));
  }
  NDArray x = moved ? term.array.transpose(order, site) : term.array;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!detail::names(term.names, names[i]))
      x = x.expand_dims(static_cast<int>(i), site);
  }
  return x;
}

NamedAxes contracted(const NamedAxes& a, const NamedAxes& b, const std::string& kept, SourceLocation site) {
  std::string batch, of_a, of_b, summed;
  for (const char axis : a.names)
    (!names(b.names, axis) ? of_a : names(kept, axis) ? batch : summed) += axis;
  for (const char axis : b.names) {
    if (!names(a.names, axis))
      of_b += axis;
  }
  const std::string all = batch + of_a + of_b;
  if (summed.empty())
    return {multiply(arranged(a, all, site), arranged(b, all, site), site), all};
  const NDArray product = matmul(
      as_numbers(as_matrices(a, batch, of_a, summed, site), site),
      as_numbers(as_matrices(b, batch, summed, of_b, site), site),
      site);
  if (of_a.size() == 1 && of_b.size() == 1 && batch.size() + 2 <= k_max_ndim)
    return {product, all};
  Shape shape = extents_of(a, batch + of_a);
  for (const std::int64_t extent : extents_of(b, of_b))
    shape.push_back(extent);
  return {product.reshape(with_open_rows(shape), site), all};
}

}  // namespace sluice::detail
