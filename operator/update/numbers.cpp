#include <cstring>
#include <utility>
#include <vector>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/engine.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/update/numbers.h>

namespace sluice::detail {

namespace {

/// A steady program writes words at each step: they come from recycled blocks.
template <class T>
struct BlockAllocator {
  using value_type = T;
  BlockAllocator() = default;
  template <class U>
  BlockAllocator(const BlockAllocator<U>&) noexcept {}  // NOLINT: as allocators do
  T* allocate(std::size_t count) { return static_cast<T*>(take_block(count * sizeof(T))); }
  void deallocate(T* block, std::size_t count) noexcept { give_block(block, count * sizeof(T)); }
  bool operator==(const BlockAllocator&) const = default;
};

/// Attributes of words.
struct WordsAttributes {
  std::vector<std::int64_t, BlockAllocator<std::int64_t>> words;
  Shape shape;
  DType dtype = DType::int64;
  Device device = cpu();

  template <class V>
  void visit(V&& v) {
    std::vector<std::int64_t> given(words.begin(), words.end());
    v.field("words", given);
    words.assign(given.begin(), given.end());
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

namespace {

void write(WordsAttributes attributes, const NDArray& to, SourceLocation site) {
  const EngineScope here(to.engine());
  attributes.shape = to.shape();
  attributes.dtype = to.dtype();
  attributes.device = to.device();
  invoke(k_words, {}, Attributes::of(std::move(attributes)), site, {&to, 1});
}

}  // namespace

void write_words(std::span<const std::int64_t> words, const NDArray& to, SourceLocation site) {
  write({.words = {words.begin(), words.end()}}, to, site);
}

void write_words(std::span<const double> values, const NDArray& to, SourceLocation site) {
  WordsAttributes attributes;
  attributes.words.resize(values.size());
  if (!values.empty())
    std::memcpy(attributes.words.data(), values.data(), values.size_bytes());
  write(std::move(attributes), to, site);
}

}  // namespace sluice::detail
