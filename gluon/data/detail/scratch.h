#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sluice::gluon::data::detail {

/// Memory for a moment, of what this thread needed before: taking megabytes anew for each sample costs more than what
/// is done with them.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) {
    if (!kept().empty()) {
      memory_ = std::move(kept().back());
      kept().pop_back();
    }
    if (memory_.size() < bytes)
      memory_.resize(bytes);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    try {
      kept().push_back(std::move(memory_));
    } catch (...) {  // it goes back to the system then
    }
  }

  /// Aligned for every element type.
  template <class T>
  T* as() noexcept {
    return reinterpret_cast<T*>(memory_.data());
  }

 private:
  static std::vector<std::vector<std::byte>>& kept() {
    static thread_local std::vector<std::vector<std::byte>> memory;
    return memory;
  }

  std::vector<std::byte> memory_;
};

}  // namespace sluice::gluon::data::detail
