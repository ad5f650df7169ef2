#pragma once

#include <utility>

// What the tape knows of amp::autocast() (operator/autocast.h): that gradients are computed without it.
namespace sluice::detail {

struct AutocastState;

/// What the innermost scope of this thread asks for; null: nothing. Looked at by every call, as the sink is.
extern constinit thread_local const AutocastState* t_autocast [[gnu::tls_model("initial-exec")]];

/// Calls of this thread are made as they are while it lives: those that gradients, compositions and programs that were
/// traced consist of.
class NoAutocast {
 public:
  NoAutocast() noexcept : before_(std::exchange(t_autocast, nullptr)) {}
  NoAutocast(const NoAutocast&) = delete;
  NoAutocast& operator=(const NoAutocast&) = delete;
  ~NoAutocast() { t_autocast = before_; }

 private:
  const AutocastState* before_;
};

}  // namespace sluice::detail
