#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/own_memory.h>
#include <sluice/operator/view/blocks.h>

namespace sluice {

namespace {

struct BlockAttributes {
  std::int64_t block_size = 2;

  template <class V>
  void visit(V&& v) {
    v.field("block_size", block_size);
  }
};

std::int64_t block_size_of(const char* op, const Shape& x, const Attributes& attributes) {
  const std::int64_t block = attributes.as<BlockAttributes>().block_size;
  require<ValueError>(block >= 1 && block < std::int64_t{1} << 31, [&] {
    return message(op, ": block_size must be at least 1 and below 2^31, not ", block);
  });
  require<ShapeError>(x.ndim() == 4, [&] {
    return message(
        op, ": x must be (N, C, H, W), not ", x, x.ndim() == 3 ? "; expand_dims(0) makes one image a batch" : "");
  });
  return block;
}

template <bool to_depth>
Specs infer_blocks(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  ArraySpec y = inputs[0];
  const Shape& x = inputs[0].shape;
  const std::int64_t block = block_size_of(op.name, x, attributes), pixels = block * block;
  const bool divides = to_depth ? x[2] % block == 0 && x[3] % block == 0 : x[1] % pixels == 0;
  require<ShapeError>(divides, [&] {
    return message(
        op.name,
        ": ",
        to_depth ? "height and width" : "the channels",
        " of x ",
        x,
        ", (N, C, H, W), do not divide by ",
        to_depth ? block : pixels);
  });
  y.shape[1] = to_depth ? Shape{x[1], pixels}.size() : x[1] / pixels;
  for (const int axis : {2, 3})
    y.shape[axis] = to_depth ? x[axis] / block : Shape{x[axis], block}.size();
  return {y};
}

// What x and its result are views of, and how one is the other's axes in another order.
struct Apart {
  Shape shape, order;
};

Apart apart(const Shape& x, std::int64_t block, bool to_depth, bool channels_first) {
  if (to_depth) {
    const Shape order = channels_first ? Shape{0, 1, 3, 5, 2, 4} : Shape{0, 3, 5, 1, 2, 4};
    return {{-1, x[1], x[2] / block, block, x[3] / block, block}, order};
  }
  const std::int64_t channels = x[1] / (block * block);
  if (channels_first)
    return {{-1, channels, block, block, x[2], x[3]}, {0, 1, 4, 2, 5, 3}};
  return {{-1, block, block, channels, x[2], x[3]}, {0, 3, 4, 1, 5, 2}};
}

template <const Operator& op, bool to_depth, bool channels_first>
Arrays move_blocks(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  Shape y = op.infer(op, detail::specs_of(inputs), attributes)[0].shape;
  const NDArray& x = inputs[0];
  const Shape extents = detail::extents_beside_batch(x);
  if (detail::is_empty_beside_batch(extents))
    return {detail::zeros_from(inputs, {}, y, site).astype(x.dtype(), site)};
  const std::int64_t block = attributes.as<BlockAttributes>().block_size;
  const Apart how = apart(extents, block, to_depth, channels_first);
  y[0] = -1;
  return {detail::own_memory(x.reshape(how.shape, site).transpose(how.order, site).reshape(y, site), x, site)};
}

extern const Operator k_space_to_depth, k_depth_to_space, k_pixel_unshuffle, k_pixel_shuffle;

template <bool to_depth>
constexpr Operator blocks(const char* name, Composition composition) {
  Operator op{};
  op.name = name;
  op.attributes = &attribute_type<BlockAttributes>;
  op.infer = infer_blocks<to_depth>;
  op.composition = composition;
  return op;
}

constinit const Operator k_space_to_depth = blocks<true>("space_to_depth", move_blocks<k_space_to_depth, true, false>);
constinit const Operator k_depth_to_space =
    blocks<false>("depth_to_space", move_blocks<k_depth_to_space, false, false>);
constinit const Operator k_pixel_unshuffle =
    blocks<true>("pixel_unshuffle", move_blocks<k_pixel_unshuffle, true, true>);
constinit const Operator k_pixel_shuffle = blocks<false>("pixel_shuffle", move_blocks<k_pixel_shuffle, false, true>);

NDArray moved(const Operator& op, const NDArray& x, std::int64_t block_size, SourceLocation site) {
  return invoke_one(op, {x}, Attributes::of(BlockAttributes{block_size}), site);
}

}  // namespace

detail::OperatorList detail::block_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_space_to_depth, &k_depth_to_space, &k_pixel_unshuffle, &k_pixel_shuffle};
  return list;
}

NDArray space_to_depth(const NDArray& x, std::int64_t block_size, SourceLocation site) {
  return moved(k_space_to_depth, x, block_size, site);
}

NDArray depth_to_space(const NDArray& x, std::int64_t block_size, SourceLocation site) {
  return moved(k_depth_to_space, x, block_size, site);
}

NDArray pixel_unshuffle(const NDArray& x, std::int64_t block_size, SourceLocation site) {
  return moved(k_pixel_unshuffle, x, block_size, site);
}

NDArray pixel_shuffle(const NDArray& x, std::int64_t block_size, SourceLocation site) {
  return moved(k_pixel_shuffle, x, block_size, site);
}

}  // namespace sluice
