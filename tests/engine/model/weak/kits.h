#pragma once

// The engine's own headers, and copies of them with one memory order weakened (made by weaken.py).
#include <sluice/engine/detail/commute_protocol.h>
#include <sluice/engine/detail/read_gate.h>
#include <sluice/engine/detail/read_marks.h>
#include <sluice/engine/detail/ring.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/var_life.h>
#include <sluice/engine/detail/var_protocol.h>

namespace sluice::weak {

struct AsItIs {
  template <class Host, class Var, class Access>
  using Protocol = detail::VarProtocol<Host, Var, Access>;
  template <class Host, class Var, class Access>
  using Life = detail::VarLife<Host, Var, Access>;
  template <class Host, class Var, class Access, class Set, class Member, class Run>
  using Commute = detail::CommuteProtocol<Host, Var, Access, Set, Member, Run>;
  template <class Word, unsigned Shards>
  using Gate = detail::ReadGate<Word, Shards>;
  template <class Task, std::uint64_t Size, template <class> class Atomic>
  using Ring = detail::BasicRing<Task, Size, Atomic>;
  template <template <class> class Atomic, class Rest>
  using Lock = detail::BasicSpinLock<Atomic, Rest>;
  template <template <class> class Atomic, std::size_t Count>
  using Marks = detail::BasicReadMarks<Atomic, Count>;
  template <class T, template <class> class Atomic>
  using Pointer = detail::BasicMarkedPointer<T, Atomic>;
};

}  // namespace sluice::weak
