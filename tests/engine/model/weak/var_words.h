#pragma once

#include <cstdint>

#include "tests/engine/model/weak/kits.h"
#include "tests/engine/model/weak/words.h"

namespace sluice::weak {

/// What the protocol knows of a Var.
template <class Access, class Gate>
struct VarWords {
  Lock lock;
  Atomic<detail::VarMode> mode{detail::VarMode::idle};
  Atomic<bool> gate_open{false};
  Plain<bool> orphan{false};
  Atomic<int> readers{0};
  Plain<Access*> inbox_head, inbox_tail, run;
  Plain<Gate*> gate;
  Plain<std::uint16_t> reads_in_a_row{0};
};

}  // namespace sluice::weak
