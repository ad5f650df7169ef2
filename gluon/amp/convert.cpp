#include <algorithm>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/amp/convert.h>
#include <sluice/gluon/nn/batch_norm.h>
#include <sluice/gluon/nn/norm.h>
#include <sluice/operator/half_types.h>

namespace sluice::amp {

namespace {

template <class... Norms>
bool is_one_of(const gluon::Block& block) {
  return ((dynamic_cast<const Norms*>(&block) != nullptr) || ...);
}

bool is_norm(const gluon::Block& block) {
  namespace nn = gluon::nn;
  return is_one_of<nn::BatchNorm, nn::LayerNorm, nn::RMSNorm, nn::GroupNorm, nn::InstanceNorm>(block);
}

}  // namespace

void convert_block(gluon::Block& net, DType dtype) {
  require<DTypeError>(
      detail::is_half(dtype), [&] { return message("convert_block: casts to float16 or bfloat16, not to ", dtype); });
  std::vector<gluon::Parameter> stay;
  net.apply([&](gluon::Block& block) {
    if (!is_norm(block))
      return;
    for (const auto& [name, parameter] : block.collect_params())
      stay.push_back(parameter);
  });
  for (const auto& [name, parameter] : net.collect_params()) {
    const gluon::Parameter& one = parameter;
    if (std::none_of(stay.begin(), stay.end(), [&](const gluon::Parameter& norm) { return norm.same(one); }))
      parameter.cast(dtype);
  }
}

}  // namespace sluice::amp
