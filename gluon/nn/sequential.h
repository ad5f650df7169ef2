#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include <sluice/gluon/block.h>

namespace sluice::gluon::nn {

/// Blocks one after the other, named "0", "1", ... (Gluon's nn.Sequential).
class SLUICE_API Sequential : public Block {
 public:
  Sequential() = default;

  /// Moves the blocks in, in order.
  template <std::derived_from<Block>... Blocks>
  requires(!std::is_lvalue_reference_v<Blocks> && ...) void add(Blocks&&... blocks) {
    (add(std::make_shared<Blocks>(std::move(blocks))), ...);
  }
  /// Adds a block that others may hold too: it then stands, weights and all, in several networks.
  void add(std::shared_ptr<Block> block);

  /// The layer at `index`. Throws IndexError.
  Block& operator[](std::size_t index) const { return child_at(index); }
  std::size_t size() const noexcept { return num_children(); }

  NDArray forward(const NDArray& x) override;
};

}  // namespace sluice::gluon::nn
