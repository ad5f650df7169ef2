#include <algorithm>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/model_zoo/transformers.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/matmul/matmul.h>

namespace sluice::gluon::model_zoo {

/// One call: tokens, and the position of the first. The caches are arrays of its own that its graphs write.
class GPTDecoder::Step : public Block {
 public:
  Step(const GPT& net, std::int64_t batch)
      : wte_(net.wte_), wpe_(net.wpe_), body_(net.body_), parameters_(net.collect_params()) {
    device_ = wte_->own_parameter("weight").device();
    caches_ = body_->make_caches(batch, net.length(), device_);
  }

  Device device() const noexcept { return device_; }
  /// By hand as long as shapes of parameters are not known: those get them from the first call.
  void prepare() {
    const auto has_shape = [](const auto& one) { return one.second.is_initialized(); };
    if (!is_hybridized() && std::all_of(parameters_.begin(), parameters_.end(), has_shape))
      hybridize(true, {.batch_sizes = BatchSizes::each});
  }
  // What a program computed of NaN must not reach the next text, which multiplies it by 0.
  void clear() {
    for (const nn::KeyValueCache& cache : caches_) {
      cache.keys.assign(0);
      cache.values.assign(0);
    }
  }

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    require_inputs(inputs, 2);
    const SourceLocation site = call_site();
    const NDArray x = wpe_(wte_(inputs[0], site), inputs[1], site);
    const NDArray y = body_->step(x, inputs[1], caches_, site);
    return {dense(y, wte_->own_parameter("weight").data(), {}, {.flatten = false}, site)};
  }

 private:
  Child<nn::Embedding> wte_;
  Child<nn::LearnedPositions> wpe_;
  Child<nn::TransformerEncoder> body_;
  ParameterDict parameters_;
  Device device_ = cpu();
  std::vector<nn::KeyValueCache> caches_;
};

GPTDecoder::GPTDecoder(const GPT& net, std::int64_t batch)
    : step_(std::make_unique<Step>(net, batch)), batch_(batch), length_(net.length()) {}
GPTDecoder::~GPTDecoder() = default;
GPTDecoder::GPTDecoder(GPTDecoder&&) noexcept = default;
GPTDecoder& GPTDecoder::operator=(GPTDecoder&&) noexcept = default;

NDArray GPTDecoder::operator()(const NDArray& tokens, SourceLocation site) {
  return sluice::detail::located(site, [&] {
    require<ShapeError>(
        tokens.defined() && tokens.ndim() == 2 && tokens.shape()[0] == batch_ && tokens.shape()[1] >= 1,
        [&] { return message("GPTDecoder: tokens are (", batch_, ", L), not ", tokens.shape()); });
    const std::int64_t more = tokens.shape()[1];
    require(position_ + more <= length_, [&] {
      return message(
          "GPTDecoder: ",
          more,
          " tokens behind ",
          position_,
          " are more than the ",
          length_,
          " that the network takes");
    });
    step_->prepare();
    const autograd::ModeScope predicting(false, false);
    const NDArray position = full({}, position_, {.dtype = int64, .device = step_->device()});
    const NDArray logits = (*step_)(tokens, position, site);
    position_ += more;
    return logits;
  });
}

void GPTDecoder::reset() {
  step_->clear();
  position_ = 0;
}

std::size_t GPTDecoder::traces() const {
  return step_->hybrid_traces();
}

}  // namespace sluice::gluon::model_zoo
