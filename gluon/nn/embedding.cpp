#include <sluice/engine/error.h>
#include <sluice/gluon/nn/embedding.h>
#include <sluice/operator/gather/indexing.h>

namespace sluice::gluon::nn {

Embedding::Embedding(std::int64_t input_dim, std::int64_t output_dim, EmbeddingOptions options)
    : padding_(options.padding),
      weight_(parameter(
          "weight", {.shape = {input_dim, output_dim}, .dtype = options.dtype, .init = options.weight_initializer})) {
  require(input_dim >= 1 && output_dim >= 1, [&] {
    return message("nn::Embedding: input_dim = ", input_dim, " and output_dim = ", output_dim, " must be >= 1");
  });
  require<IndexError>(!padding_ || (*padding_ >= -input_dim && *padding_ < input_dim), [&] {
    return message("nn::Embedding: there is no row ", *padding_, " of ", input_dim, " for padding");
  });
  const EmbeddingOptions usual;
  note_options(OptionNotes()
                   .sizes("input_dim", weight_, 0, "output_dim", output_dim)
                   .add("padding", options.padding, usual.padding)
                   .add("dtype", options.dtype, usual.dtype));
}

NDArray Embedding::forward(const NDArray& x) const {
  return embedding(x, weight_.data(), padding_, call_site());
}

}  // namespace sluice::gluon::nn
