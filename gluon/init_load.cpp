#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/formats/formats.h>
#include <sluice/gluon/init.h>
#include <sluice/operator/rnn/composed.h>

namespace sluice::gluon::init {

Load::Load(const std::map<std::string, NDArray>& arrays, Initializer fallback) : fallback_(std::move(fallback)) {
  for (const auto& [name, array] : arrays)
    add(name, array);
}

Load::Load(const std::filesystem::path& path, Initializer fallback) : fallback_(std::move(fallback)) {
  for (const auto& [name, array] : formats::load_any(path))
    add(name, array);
}

void Load::add(const std::string& name, const NDArray& array) {
  require(array.defined(), [&] { return message("init::Load: '", name, "' is an undefined NDArray"); });
  const bool has_kind = name.starts_with("arg:") || name.starts_with("aux:");
  arrays_.insert_or_assign(has_kind ? name.substr(4) : name, array);
}

NDArray Load::find(const std::string& name) const {
  const auto found = arrays_.find(name);
  return found == arrays_.end() ? NDArray() : found->second;
}

void Load::check(const std::string& name, const Shape& shape, bool has_its_own) const {
  const NDArray value = find(name);
  require(value.defined() || has_its_own || fallback_ != nullptr, [&] {
    return message("init::Load: there is no value for '", name, "', and no initialiser for what has none");
  });
  if (!value.defined())
    return;
  bool fits = value.shape().ndim() == shape.ndim();
  for (int axis = 0; fits && axis < shape.ndim(); ++axis)
    fits = shape[axis] == 0 || shape[axis] == value.shape()[axis];
  require<ShapeError>(fits, [&] {
    return message("init::Load: the value of '", name, "' has shape ", value.shape(), ", the parameter ", shape);
  });
}

RNNFused::RNNFused(RnnMode mode, std::int64_t num_layers, std::int64_t hidden_size, RNNFusedOptions options)
    : mode_(mode), layers_(num_layers), hidden_(hidden_size), options_(std::move(options)) {
  require(num_layers >= 1 && sluice::detail::is_hidden_size(hidden_size), [&] {
    return message("init::RNNFused: ", num_layers, " layers of ", hidden_size, " units; there must be one at least");
  });
}

void RNNFused::operator()(const NDArray& array) const {
  const std::int64_t directions = options_.bidirectional ? 2 : 1;
  const std::int64_t rows = sluice::detail::gates_of(mode_) * hidden_, size = array.size();
  const std::int64_t above = (layers_ - 1) * directions * rows * (directions * hidden_ + hidden_);
  const std::int64_t first = size - above - layers_ * directions * 2 * rows;
  const std::int64_t inputs = first / (directions * rows) - hidden_;
  require<ShapeError>(array.ndim() == 1 && first % (directions * rows) == 0 && inputs >= 1, [&] {
    return message(
        "init::RNNFused: ", layers_, " layers of ", hidden_, " units do not have parameters of shape ", array.shape());
  });
  std::int64_t at = 0;
  const auto fill_next = [&](const Shape& shape, const Initializer& init) {
    if (init != nullptr)
      init(array.slice(0, at, at + shape.size()).reshape(shape));
    at += shape.size();
  };
  for (std::int64_t i = 0; i < layers_ * directions; ++i) {
    fill_next({rows, i < directions ? inputs : directions * hidden_}, options_.i2h_weight_initializer);
    fill_next({rows, hidden_}, options_.h2h_weight_initializer);
  }
  for (std::int64_t i = 0; i < layers_ * directions; ++i) {
    fill_next({rows}, options_.i2h_bias_initializer);
    fill_next({rows}, options_.h2h_bias_initializer);
  }
}

}  // namespace sluice::gluon::init
