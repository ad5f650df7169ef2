#include "tests/bench/networks/deeplab.h"

#include <algorithm>
#include <vector>

#include "tests/bench/networks/layers.h"

namespace sluice::bench {

namespace nn = gluon::nn;

namespace {

constexpr std::int64_t k_width = 256, k_classes = 21;

// Row i holds by how much of each of `from` numbers the i-th of `to` is made: linear, pixels being areas (PyTorch's
// align_corners=False).
NDArray linear_weights(std::int64_t to, std::int64_t from, Device device) {
  std::vector<float> rows(static_cast<std::size_t>(to * from));
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double at = std::max(0.0, (static_cast<double>(i) + 0.5) * scale - 0.5);
    const auto low = static_cast<std::int64_t>(at);
    const double part = at - static_cast<double>(low);
    rows[static_cast<std::size_t>(i * from + low)] += static_cast<float>(1 - part);
    rows[static_cast<std::size_t>(i * from + std::min(low + 1, from - 1))] += static_cast<float>(part);
  }
  return array(rows, {to, from}, device);
}

// Context at several distances, side by side.
class Pyramid : public gluon::Block {
 public:
  explicit Pyramid(std::int64_t in) {
    near_ = child("near", conv_norm(in, k_width, {}));
    for (const std::int64_t rate : {12, 24, 36})
      far_.push_back(child("rate" + std::to_string(rate), conv_norm(in, k_width, {.kernel = 3, .dilation = rate})));
    whole_ = child("whole", conv_norm(in, k_width, {}));
    project_ = child("project", conv_norm(5 * k_width, k_width, {}));
  }

 protected:
  NDArray forward(const NDArray& x) const override {
    std::vector<NDArray> parts{near_(x)};
    for (const gluon::Child<nn::Sequential>& far : far_)
      parts.push_back(far(x));
    const NDArray whole = whole_(mean(x, {2, 3}, true));
    parts.push_back(whole.broadcast_to({x.shape()[0], k_width, x.shape()[2], x.shape()[3]}));
    return project_(concat(parts, 1));
  }

 private:
  gluon::Child<nn::Sequential> near_, whole_, project_;
  std::vector<gluon::Child<nn::Sequential>> far_;
};

}  // namespace

std::shared_ptr<gluon::Block> deeplab(ResNetOptions backbone, std::int64_t side, Device device) {
  backbone.dilated = true;
  const NDArray rows = linear_weights(side, side / 8, device);
  nn::Sequential net;
  net.add(resnet_features(backbone), Pyramid(channels_of(backbone)), nn::Dropout(0.5));
  net.add(conv_norm(k_width, k_width, {.kernel = 3}), Conv(k_width, k_classes, {.bias = true}));
  net.add(nn::Lambda([rows](const NDArray& x) {
    const NDArray by = rows.astype(x.dtype());
    return matmul(matmul(by, x), by.T());
  }));
  return std::make_shared<nn::Sequential>(std::move(net));
}

}  // namespace sluice::bench
