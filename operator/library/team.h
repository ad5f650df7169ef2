#pragma once

namespace sluice::detail {

/// Gives the calling thread's OpenMP regions `threads` threads while it lives. A no-op in builds without oneDNN.
class TeamScope {
 public:
  explicit TeamScope(int threads) noexcept;
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;
  ~TeamScope();

 private:
  int before_;
};

}  // namespace sluice::detail
