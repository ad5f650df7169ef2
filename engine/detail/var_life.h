#pragma once

#include <cstdint>

#include <sluice/engine/detail/var_protocol.h>

namespace sluice::detail {

/// What else happens to a Var under its lock: handles go, it is frozen, its read gate opens. The same for a checker's
/// Vars as for ours, like VarProtocol.
///
/// `Host` gives hot_reads(), how many reads without a write between open a gate, and new_gate(), null if there is none
/// to be had; it is told orphaned(var), with the lock held, when the last handle goes and tasks still use the Var, and
/// retire(var), with no lock held, once nothing uses it any more.
template <class Host, class Var, class Access>
struct VarLife {
  using Protocol = VarProtocol<Host, Var, Access>;

  /// Drops a handle's count. With the last one the Var retires, now or as soon as nothing uses it.
  static void release(Host& host, Var* var) {
    int handles = var->handles.load(std::memory_order_relaxed);
    while (handles > 1) {
      if (var->handles.compare_exchange_weak(handles, handles - 1, std::memory_order_acq_rel))
        return;
    }
    // Perhaps the last handle: decided under the lock, so that exactly one of us and a finishing task retires the Var.
    var->lock.lock();
    if (var->handles.fetch_sub(1, std::memory_order_acq_rel) != 1) {
      var->lock.unlock();
      return;
    }
    const VarMode mode = var->mode.load(std::memory_order_relaxed);
    const bool last = mode == VarMode::idle || (mode == VarMode::reading_open && Protocol::close(var));
    if (!last)
      host.orphaned(var);
    if (last)
      var->mode.store(VarMode::idle, std::memory_order_relaxed);
    var->orphan = !last;
    var->lock.unlock();
    if (last)
      host.retire(var);
  }

  /// Nothing is queued and nobody uses it. With the lock held; gives it up.
  static void idle(Host& host, Var* var) {
    const bool last = var->orphan;
    if (last)
      var->orphan = false;
    if (!last && var->frozen.load(std::memory_order_relaxed)) {
      stand_open(var);
      open_gate(host, var);
    } else {
      var->mode.store(VarMode::idle, std::memory_order_relaxed);
    }
    var->lock.unlock();
    if (last)
      host.retire(var);
  }

  /// A read was let in beside which others may come. With the lock held.
  static void joined(Host& host, Var* var) {
    if (var->orphan || var->gate_open.load(std::memory_order_relaxed))
      return;
    const int reads = var->reads_in_a_row + 1;
    if (reads <= 0xffff)
      var->reads_in_a_row = static_cast<std::uint16_t>(reads);
    if (reads == host.hot_reads() || var->frozen.load(std::memory_order_relaxed))
      open_gate(host, var);
  }

  /// Reads of a frozen Var pass its gate as soon as earlier writers are done.
  static void freeze(Host& host, Var* var, bool frozen) {
    var->lock.lock();
    var->frozen.store(frozen, std::memory_order_relaxed);
    if (frozen && var->mode.load(std::memory_order_relaxed) == VarMode::idle)
      stand_open(var);
    if (frozen && var->mode.load(std::memory_order_relaxed) == VarMode::reading_open)
      open_gate(host, var);
    var->lock.unlock();
  }

 private:
  static void stand_open(Var* var) {
    var->readers.store(0, std::memory_order_relaxed);
    var->mode.store(VarMode::reading_open, std::memory_order_relaxed);
  }

  // Without memory for a gate readers go on meeting at the lock.
  static void open_gate(Host& host, Var* var) {
    if (var->gate == nullptr)
      var->gate = host.new_gate();
    if (var->gate != nullptr)
      var->gate_open.store(true, std::memory_order_release);
  }
};

}  // namespace sluice::detail
