#pragma once

#include <cstddef>
#include <vector>

#include <sluice/engine/export.h>

namespace sluice::gluon::data::detail {

/// Memory for a moment, of what was needed so before: taking megabytes anew for each sample costs more than what is
/// done with them. It is kept for the process: no more than twice what was in use at once, and 256 MiB.
class SLUICE_API Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  /// Aligned for every element type.
  template <class T>
  T* as() noexcept {
    return reinterpret_cast<T*>(memory_.data());
  }

  /// What is kept for later now.
  static std::size_t kept_bytes();

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

}  // namespace sluice::gluon::data::detail
