#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

#include <sluice/gluon/block.h>

namespace sluice::gluon::nn {

/// Blocks one after the other, named "0", "1", ... (Gluon's nn.Sequential).
class SLUICE_API Sequential : public Block {
 public:
  Sequential() = default;

  /// A number between brackets, and the line where it stands.
  struct Place {
    template <std::convertible_to<std::size_t> Index>
    Place(Index number, SourceLocation line = SourceLocation::current()) noexcept  // NOLINT: converts by design
        : index(static_cast<std::size_t>(number)), site(line) {}
    std::size_t index;
    SourceLocation site;
  };

  /// Moves the blocks in, in order. Throws ValueError for one that holds this block.
  template <std::derived_from<Block>... Blocks>
  requires(!std::is_lvalue_reference_v<Blocks> && ...) void add(Blocks&&... blocks) {
    (add(adopt(std::move(blocks))), ...);
  }
  /// Adds a block that others may hold too: it then stands, weights and all, in several networks. Throws ValueError
  /// for null and for a block that is, or holds, this one.
  void add(std::shared_ptr<Block> block);

  /// The layer at `index`; replace("2", nn::Dense(5)) puts another one there. Throws IndexError.
  Child<> operator[](Place place) const { return child_at(place.index, place.site); }
  std::size_t size() const noexcept { return num_children(); }

 protected:
  NDArray forward(const NDArray& x) const override;
};

}  // namespace sluice::gluon::nn
