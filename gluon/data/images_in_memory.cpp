#include <cstring>

#include <sluice/gluon/data/images_in_memory.h>

namespace sluice::gluon::data::vision {

const void* ImagesInMemory::data_row(std::int64_t index) const {
  return content_->pixels.data() + index * content_->shape.size();
}

void ImagesInMemory::read(
    std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const {
  const auto bytes = static_cast<std::size_t>(content_->shape.size());
  for (std::size_t i = 0; bytes > 0 && i < indices.size(); ++i)
    std::memcpy(data.as<std::uint8_t>() + i * bytes, data_row(indices[i]), bytes);
  read_labels(indices, label);
}

void ImagesInMemory::read_labels(std::span<const std::int64_t> indices, const TensorView& label) const {
  for (std::size_t i = 0; i < indices.size(); ++i)
    label.as<std::int32_t>()[i] = content_->labels[static_cast<std::size_t>(indices[i])];
}

}  // namespace sluice::gluon::data::vision
