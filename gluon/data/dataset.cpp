#include <cstring>

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

ArrayDataset::ArrayDataset(const NDArray& data, const NDArray& label) {
  require<ShapeError>(data.ndim() >= 1 && label.ndim() >= 1 && data.shape()[0] == label.shape()[0], [&] {
    return message("ArrayDataset: data ", data.shape(), " and label ", label.shape(), " differ in their first axis");
  });
  data_ = on_host(data);
  label_ = on_host(label);
}

ArraySpec ArrayDataset::data_spec() const {
  return slice_spec(data_);
}

ArraySpec ArrayDataset::label_spec() const {
  return slice_spec(label_);
}

void ArrayDataset::read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const {
  gather_rows(data_, indices, data);
  gather_rows(label_, indices, label);
}

}  // namespace sluice::gluon::data
