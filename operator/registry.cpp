#include <algorithm>
#include <cstring>
#include <vector>

#include <sluice/operator/detail/families.h>

namespace sluice {

namespace {

// The one list of families.
constexpr detail::OperatorList (*k_families[])() noexcept = {
    detail::elementwise_operators,
    detail::view_operators,
    detail::matmul_operators,
    detail::conv_operators,
    detail::pool_operators,
    detail::norm_operators,
    detail::reduce_operators,
    detail::softmax_operators,
    detail::gather_operators,
    detail::concat_operators,
    detail::random_operators,
};

std::vector<const Operator*> all_operators() {
  std::vector<const Operator*> all;
  for (const auto family : k_families) {
    const detail::OperatorList list = family();
    all.insert(all.end(), list.begin(), list.end());
  }
  std::sort(
      all.begin(), all.end(), [](const Operator* a, const Operator* b) { return std::strcmp(a->name, b->name) < 0; });
  return all;
}

}  // namespace

std::span<const Operator* const> operators() noexcept {
  static const std::vector<const Operator*>* const all = new std::vector<const Operator*>(all_operators());
  return *all;
}

}  // namespace sluice
