#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/nn/concurrent.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::nn {

Concurrent::Concurrent(int axis) : axis_(axis) {
  note_options(OptionNotes().add("axis", axis, -1));
}

NDArray Concurrent::forward(const NDArray& x) const {
  require(size() > 0, [] { return "nn::Concurrent: holds no blocks"; });
  std::vector<NDArray> results;
  for (std::size_t i = 0; i < size(); ++i)
    results.push_back(call_child(i, x));
  return concat(results, axis_, call_site());
}

Residual::Residual(std::shared_ptr<Block> body, std::shared_ptr<Block> shortcut, bool relu)
    : body_(child("body", std::move(body))), has_shortcut_(shortcut != nullptr), relu_(relu) {
  if (has_shortcut_)
    shortcut_ = child("shortcut", std::move(shortcut));
  note_options(OptionNotes().add("relu", relu, true));
}

NDArray Residual::forward(const NDArray& x) const {
  const NDArray sum = add(body_(x), has_shortcut_ ? shortcut_(x) : x, call_site());
  return relu_ ? sluice::relu(sum, call_site()) : sum;
}

}  // namespace sluice::gluon::nn
