#pragma once

#include <sluice/storage/detail/base_pool.h>
#include <sluice/storage/detail/bins.h>

namespace sluice::detail {

struct SplitOptions {
  std::size_t small_most = std::size_t{64} << 10;     // up to here pieces come from small segments
  std::size_t small_segment = std::size_t{2} << 20;   // bytes
  std::size_t large_segment = std::size_t{20} << 20;  // at least, in multiples of a page
  std::size_t page = std::size_t{2} << 20;            // the driver's
  std::size_t release_threshold = 0;                  // reserved bytes up to which idle segments stay
  bool merge_pending = true;  // at once; else what is still pending stays apart until a request needs it merged
};

/// Large segments that are cut into pieces of the size asked for; free neighbours become one again. A merged piece is
/// pending on what both were, on four streams at most: beyond that, merging waits until something has passed.
class SplitPool : public BasePool {
 public:
  SplitPool(Passage& passage, std::unique_ptr<MemorySource> source, const SplitOptions& options);

 protected:
  SplitPool(
      Passage& passage,
      std::string_view name,
      std::unique_ptr<MemorySource> source,
      const SplitOptions& options) noexcept;

  std::size_t round(std::size_t bytes) const noexcept override;
  Piece* take(std::size_t bytes, const User& user) override;
  std::size_t segment_bytes(std::size_t bytes, bool least) const noexcept override;
  bool apart(std::size_t bytes) const noexcept override { return bytes <= options_.small_most; }
  Piece* cut(Piece* piece, std::size_t bytes) override;
  bool keep(Piece* piece) noexcept override;
  void unlink(Piece* piece) noexcept override;
  void tidy(Merging what, const User& user) noexcept override;

  Bins& bins_of(const Piece& piece) noexcept { return piece.segment->small ? small_ : large_; }
  /// Cuts `piece` after `bytes`; what lies behind becomes `rest`, which is in no list yet.
  static void part(Piece* piece, std::size_t bytes, Piece* rest) noexcept;
  /// Takes the right neighbour in: it lies in no list.
  void absorb(Piece* piece, Piece* right) noexcept;

 private:
  Piece* find(const Bins& bins, std::size_t bytes, const User& user) const noexcept;
  Piece* split(Piece* piece, std::size_t bytes, Piece* rest) noexcept;
  Piece* merge(Piece* piece) noexcept;
  bool may_merge(const Piece& a, const Piece& b, Merging what, const User& user) const noexcept;

  const SplitOptions options_;
  const std::size_t granule_;
  Bins small_, large_;
};

}  // namespace sluice::detail
