#pragma once

#include <vector>

#include <sluice/engine/export.h>

namespace sluice::detail {

class Buffer;

/// Keeps the memory of all arrays that this thread makes while a scope of it is open: what recorded tasks use must stay
/// where it is as long as they are run again, also what a call made for itself on the way.
class SLUICE_API BuffersKept {
 public:
  BuffersKept() = default;
  BuffersKept(const BuffersKept&) = delete;
  BuffersKept& operator=(const BuffersKept&) = delete;
  ~BuffersKept() { clear(); }

  void clear() noexcept;
  std::size_t count() const noexcept { return buffers_.size(); }

  class SLUICE_API Scope {
   public:
    explicit Scope(BuffersKept& kept) noexcept;
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    BuffersKept* before_;
  };

  /// Called for each new buffer. Throws std::bad_alloc.
  static void note(Buffer* buffer) {
    if (here != nullptr) [[unlikely]]
      here->keep(buffer);
  }

 private:
  void keep(Buffer* buffer);

  static constinit thread_local BuffersKept* here [[gnu::tls_model("initial-exec")]];
  std::vector<Buffer*> buffers_;
};

}  // namespace sluice::detail
