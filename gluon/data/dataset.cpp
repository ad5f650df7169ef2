#include <cstring>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/dataset.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>

namespace sluice::gluon::data {

namespace {

NDArray on_host(const NDArray& array) {
  autograd::PauseScope pause;
  return array.to(cpu()).contiguous().detach();
}

ArraySpec slice_spec(const NDArray& array) {
  ArraySpec spec{.shape = array.shape(), .dtype = array.dtype()};
  spec.shape.erase(0);
  return spec;
}

void gather_rows(const NDArray& from, std::span<const std::int64_t> indices, const TensorView& to) {
  const std::size_t row = detail::bytes_of(slice_spec(from));
  if (row == 0)
    return;
  const std::byte* rows = from.object()->data();
  for (std::size_t i = 0; i < indices.size(); ++i)
    std::memcpy(static_cast<std::byte*>(to.data) + i * row, rows + static_cast<std::size_t>(indices[i]) * row, row);
}

}  // namespace

ArrayDataset::ArrayDataset(const std::vector<NDArray>& arrays) {
  require(!arrays.empty(), [] { return "ArrayDataset: it needs an array"; });
  for (const NDArray& array : arrays) {
    require<ShapeError>(array.ndim() >= 1 && arrays[0].ndim() >= 1 && array.shape()[0] == arrays[0].shape()[0], [&] {
      return message(
          "ArrayDataset: data ", arrays[0].shape(), " and label ", array.shape(), " differ in their first axis");
    });
  }
  for (const NDArray& array : arrays)
    arrays_.push_back(on_host(array));
}

std::vector<ArraySpec> ArrayDataset::specs() const {
  std::vector<ArraySpec> specs;
  for (const NDArray& array : arrays_)
    specs.push_back(slice_spec(array));
  return specs;
}

ArraySpec ArrayDataset::label_spec() const {
  require(arrays_.size() >= 2, [] { return "ArrayDataset: it has one array, thus no label"; });
  return slice_spec(arrays_[1]);
}

void ArrayDataset::read(std::span<const std::int64_t> indices, std::span<const TensorView> out) const {
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    gather_rows(arrays_[i], indices, out[i]);
}

}  // namespace sluice::gluon::data
