#pragma once

#include <span>

#include <sluice/engine/export.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// Is told of the calls of operators that a thread makes, while a CallObserverScope names it.
class SLUICE_API CallObserver {
 public:
  CallObserver() = default;
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;
  virtual ~CallObserver();

  /// Behind each call, which is pushed and need not be done. What an operator is composed of, casts of autocast, and
  /// what is called in here are not told. What it throws, invoke() throws.
  virtual void called(const Operator& op, std::span<const NDArray> inputs, std::span<const NDArray> results) = 0;
};

/// Tells `observer` of the calls of this thread as long as it lives, or with null nobody. Bodies of tasks that the
/// thread comes to run meanwhile are not concerned.
class SLUICE_API CallObserverScope {
 public:
  explicit CallObserverScope(CallObserver* observer) noexcept;
  CallObserverScope(const CallObserverScope&) = delete;
  CallObserverScope& operator=(const CallObserverScope&) = delete;
  ~CallObserverScope();

 private:
  CallObserver* before_;
  const void* body_before_;
};

namespace detail {
/// That of this thread's innermost scope: null mostly, which each call looks at.
extern constinit thread_local CallObserver* t_observer [[gnu::tls_model("initial-exec")]];
/// It, unless a body runs here that the scope was not opened in.
CallObserver* observer_here() noexcept;

/// One call of a thread that may be observed. What is called within it is not.
class Observed {
 public:
  Observed() noexcept {
    if (t_observer != nullptr) [[unlikely]]
      begin();
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;
  ~Observed() {
    if (observer_ != nullptr) [[unlikely]]
      end();
  }
  void tell(const Operator& op, std::span<const NDArray> inputs, std::span<const NDArray> results) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->called(op, inputs, results);
  }

 private:
  void begin() noexcept;
  void end() noexcept;

  CallObserver* observer_ = nullptr;
};
}  // namespace detail

}  // namespace sluice
