#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/dataset.h>

namespace sluice::gluon::data::vision {

/// Images of one size and their labels, held in host memory as bytes, which copies share: data uint8 (H, W, C), label
/// int32. What MNIST and CIFAR are.
class SLUICE_API ImagesInMemory {
 public:
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(content_->labels.size()); }
  ArraySpec data_spec() const { return {.shape = content_->shape, .dtype = uint8}; }
  ArraySpec label_spec() const { return {.shape = {}, .dtype = int32}; }
  void read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const;
  const void* data_row(std::int64_t index) const;
  void read_labels(std::span<const std::int64_t> indices, const TensorView& label) const;

 protected:
  struct Content {
    Shape shape;  // of an image
    std::vector<std::uint8_t> pixels = {}, labels = {};
  };
  explicit ImagesInMemory(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

 private:
  std::shared_ptr<const Content> content_;
};

}  // namespace sluice::gluon::data::vision
