#include <string>

#include <sluice/gluon/nn/sequential.h>

namespace sluice::gluon::nn {

void Sequential::add(std::shared_ptr<Block> block) {
  child(std::to_string(size()), std::move(block));
}

NDArray Sequential::forward(const NDArray& x) const {
  NDArray y = x;
  for (std::size_t i = 0; i < size(); ++i)
    y = call_child(i, y);
  return y;
}

}  // namespace sluice::gluon::nn
