#pragma once

#include <mutex>
#include <vector>

#include <sluice/storage/detail/split_pool.h>

namespace sluice::detail {

/// As SplitPool, but pieces above `small_most` lie on one line of addresses whose memory comes in pages, and where no
/// free stretch is long enough, idle pages of others move to make one longer. So memory in pieces is no reason to hold
/// more of it, and an idle page can go back to the system whatever lies beside it. Pages move only when no work may
/// use them any more. (Physical pages put together anew: Guo et al., GMLake, ASPLOS 2024; PyTorch's expandable
/// segments grow and shrink, but their pages stay.)
class PagedPool final : public SplitPool {
 public:
  /// `line`: bytes of addresses, a multiple of the page. Throws CudaError, std::bad_alloc, and OutOfMemory if there
  /// are not so many addresses.
  PagedPool(Passage& passage, std::unique_ptr<PageSource> source, std::size_t line, const SplitOptions& options);
  ~PagedPool() override;

 private:
  using Page = PageSource::Page;

  /// Where a request could lie: from `skip` bytes behind the beginning of `first` on, whole pages. `missing` pages
  /// would have to be put there.
  struct Place {
    Piece* first = nullptr;
    std::size_t skip = 0;
    std::size_t missing = 0;

    std::byte* begin() const noexcept { return first->data + skip; }
  };
  struct Range {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };
  /// Pages on their way. While they are, the pieces are nobody else's: they count as live.
  struct Move {
    std::vector<Piece*> from;   // whole pages each, that lose their memory
    std::vector<Piece*> parts;  // of the place, by address
    std::vector<Piece*> gaps;   // those that get memory
    std::vector<Page> pages;    // for them
    Piece* rest = nullptr;      // a node for what is left over
  };

  Piece* grow(Lock& lock, std::size_t size) override;
  std::size_t shrink(Lock& lock, std::size_t wanted) override;
  std::size_t returnable(const Piece& piece) const noexcept override;

  Place find_place(std::size_t size) noexcept;
  template <class Visit>
  void each_idle_stretch(const std::byte* low, std::size_t except, Visit&& visit) const;
  std::size_t count_idle(const std::byte* low, std::size_t except, std::size_t most) const noexcept;
  bool make_pages(Lock& lock, std::size_t count);
  std::size_t drop_spare(Lock& lock) noexcept;
  std::size_t destroy(Lock& lock, const std::vector<Page>& pages) noexcept;

  Piece* move_in(Lock& lock, const Place& place, std::size_t size, std::size_t idle);
  void set_apart(Move& move, std::size_t pages, const std::byte* low, std::size_t except) noexcept;
  Piece* cut_off(Piece* piece, std::size_t bytes) noexcept;
  void claim(Move& move, const Place& place, std::size_t size) noexcept;
  Piece* join(Move& move, std::size_t size) noexcept;
  void undo(Lock& lock, Move& move) noexcept;
  void take_from_table(Move& move) noexcept;
  void unmap(const std::vector<Piece*>& pieces) noexcept;
  bool map(const Move& move);
  void make_absent(Piece* piece) noexcept;

  bool is_idle(const Piece& piece) const noexcept;
  Range whole_pages(const Piece& piece, const std::byte* low, std::size_t except) const noexcept;
  std::size_t pages_in(std::size_t bytes) const noexcept { return (bytes + page_ - 1) / page_; }
  std::size_t index_of(const std::byte* data) const noexcept {
    return static_cast<std::size_t>(data - line_.data) / page_;
  }

  PageSource& pages_;
  const std::size_t page_;  // bytes
  Segment line_;
  std::vector<Page> table_;  // by place on the line; k_no_page where there is no memory
  std::vector<Page> spare_;  // made, and put nowhere yet
  std::mutex making_;        // before the pool's own
};

}  // namespace sluice::detail
