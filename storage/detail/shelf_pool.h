#pragma once

#include <array>
#include <map>

#include <sluice/storage/detail/base_pool.h>
#include <sluice/storage/detail/size_rule.h>

namespace sluice::detail {

/// Rounded sizes, a shelf of returned pieces for each. A piece is a segment of its own and stays whole.
class ShelfPool final : public BasePool {
 public:
  ShelfPool(Passage& passage, SizeRule rule, std::unique_ptr<MemorySource> source) noexcept;

 private:
  using Shelf = Linked<Piece>;  // the first one came back last

  std::size_t round(std::size_t bytes) const noexcept override { return rule_.round(bytes); }
  Piece* take(std::size_t bytes, const User& user) override;
  bool keep(Piece* piece) noexcept override;
  void unlink(Piece* piece) noexcept override;

  Piece* best_of(const Shelf& shelf, const User& user) const noexcept;
  std::size_t index_of(std::size_t bytes) const noexcept;
  Shelf* shelf_of(std::size_t bytes) noexcept;

  static constexpr std::size_t k_near = 640;  // shelves found by arithmetic

  const SizeRule rule_;
  const std::size_t first_large_;  // the shelf of the first multiple of the rule's large step
  std::array<Shelf, k_near> near_{};
  std::map<std::size_t, Shelf> far_;  // by size: a gibibyte and more
};

/// Nothing is kept, but what a GPU may still touch as long as it may. Over an ordinary source for memory checkers; over
/// the driver's own pool that one does the keeping.
class DirectPool final : public BasePool {
 public:
  DirectPool(Passage& passage, std::string_view name, SizeRule rule, std::unique_ptr<MemorySource> source) noexcept;

 private:
  std::size_t round(std::size_t bytes) const noexcept override { return rule_.round(bytes); }
  Piece* take(std::size_t, const User&) override { return nullptr; }
  bool keep(Piece* piece) noexcept override;
  void unlink(Piece* piece) noexcept override { parked_.erase(piece); }
  Segment* due() noexcept override;

  const SizeRule rule_;
  Linked<Piece> parked_;  // oldest first
};

}  // namespace sluice::detail
