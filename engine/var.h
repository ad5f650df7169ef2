#pragma once

#include <cstdint>
#include <utility>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/engine/position.h>

namespace sluice {

class Engine;
namespace detail {
struct VarCore;
SLUICE_API void retain(VarCore* var) noexcept;
SLUICE_API void release(VarCore* var) noexcept;
}  // namespace detail

/// Told when a Var has retired: its last handle is gone and every task on it has finished (on a GPU: was issued).
/// Called once, on whichever thread got there, outside every lock; `pending` is what GPU streams may still do. It uses
/// no engine but that of the Var: the lists of another might be at rest, and this thread would change them.
class RetireHook {
 public:
  virtual void on_retire(const PositionSet& pending) noexcept = 0;

 protected:
  ~RetireHook() = default;
};

/// How a Var is made. `home` is where the data behind it lives: an opaque word for the engine's placement.
struct VarOptions {
  Device home = cpu();
  RetireHook* on_retire = nullptr;       // must live until it was called
  const PositionSet* pending = nullptr;  // what earlier owners of the memory left on GPU streams; copied
  /// Memory of `home` that comes free when it retires. While tasks use a Var without handles, these are bytes in flight
  /// (EngineOptions::max_bytes_in_flight). Counted in whole KiB: less than one is not.
  std::uint64_t bytes = 0;
};

/// The name of something that tasks read and write. A handle: copies name the same Var. The engine orders tasks by
/// the Vars they name, whatever stands behind them. A Var outlives its engine safely.
class SLUICE_API Var {
 public:
  Var() = default;
  explicit Var(detail::VarCore* adopted) noexcept : core_(adopted) {}
  Var(const Var& other) noexcept : core_(other.core_) {
    if (core_ != nullptr)
      detail::retain(core_);
  }
  Var(Var&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  Var& operator=(Var other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~Var() {
    if (core_ != nullptr)
      detail::release(core_);
  }

  explicit operator bool() const noexcept { return core_ != nullptr; }
  bool operator==(const Var& other) const noexcept { return core_ == other.core_; }

  /// Unique in its engine, in order of creation.
  std::uint64_t id() const noexcept;
  /// Number of tasks that wrote it and succeeded so far.
  std::uint64_t version() const noexcept;
  Device home() const noexcept;
  /// The engine that made it. Throws EngineStopped when that engine is gone.
  Engine& engine() const;
  detail::VarCore* core() const noexcept { return core_; }

 private:
  detail::VarCore* core_ = nullptr;
};

}  // namespace sluice
