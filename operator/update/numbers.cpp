#include <cstring>
#include <utility>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/update/numbers.h>

namespace sluice::detail {

namespace {

/// Attributes of words.
struct WordsAttributes {
  std::vector<std::int64_t> words;
  Shape shape;
  DType dtype = DType::int64;
  Device device = cpu();

  template <class V>
  void visit(V&& v) {
    v.field("words", words);
    v.field("shape", shape);
    v.field("dtype", dtype);
    v.field("device", device);
  }
};

Specs infer_words(const Operator& op, std::span<const ArraySpec>, const Attributes& attributes) {
  const auto& given = attributes.as<WordsAttributes>();
  require<DTypeError>(given.dtype == int64 || given.dtype == float64, [&] {
    return message(op.name, ": gives int64 or float64, not ", given.dtype);
  });
  require<ShapeError>(given.shape.size() == std::ssize(given.words), [&] {
    return message(op.name, ": ", given.words.size(), " words for an array of shape ", given.shape);
  });
  return {{given.shape, given.dtype, given.device}};
}

void words_cpu(const KernelCall& call) {
  const auto& words = call.attributes.as<WordsAttributes>().words;
  if (!words.empty())
    std::memcpy(call.outputs[0].data, words.data(), words.size() * sizeof(words[0]));
}
#if SLUICE_CUDA
void words_gpu(const KernelCall& call) {
  write_words_on_gpu(call.attributes.as<WordsAttributes>().words, call.outputs[0].data, call.queue.stream());
}
#endif

}  // namespace

const Operator k_words{
    .name = "words",
    .inputs = 0,
    .attributes = &attribute_type<WordsAttributes>,
    .infer = infer_words,
    .kernels = {on_cpu(words_cpu), on_gpu(SLUICE_GPU_KERNEL(words_gpu))},
};

void write_words(std::vector<std::int64_t> words, const NDArray& to, SourceLocation site) {
  const EngineScope here(to.engine());
  invoke(
      k_words,
      {},
      Attributes::of(WordsAttributes{std::move(words), to.shape(), to.dtype(), to.device()}),
      site,
      {&to, 1});
}

void write_words(std::span<const double> values, const NDArray& to, SourceLocation site) {
  std::vector<std::int64_t> words(values.size());
  if (!values.empty())
    std::memcpy(words.data(), values.data(), values.size_bytes());
  write_words(std::move(words), to, site);
}

}  // namespace sluice::detail
