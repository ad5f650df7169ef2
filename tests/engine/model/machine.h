#pragma once

// A machine on which the engine's own Var protocol (engine/detail/var_protocol.h, var_life.h, read_gate.h) runs one
// operation at a time: its atomics, locks and plain fields ask before they act. A thread that has done its step leaves
// by longjmp; the next step runs the call again from its start, with the answers that its operations got before. So a
// thread's whole state is the list of those answers, and a state of the machine is a plain object that can be copied,
// compared and gone back to.
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::model {

inline constexpr int k_threads = 6, k_vars = 3, k_tasks = 8, k_task_accesses = 3, k_shards = 2, k_answers = 120;

/// What a thread is about to do. Plain fields have no order of their own: two threads that are about to use one, one
/// of them writing, are a race.
enum class Kind : std::uint8_t { none, atomic, lock, unlock, plain_read, plain_write, grant };

struct Answer {
  std::uint16_t where = 0;  // of the operation, to see that a repeated call does the same
  std::int8_t value = 0;
};

struct Thread {
  std::uint8_t command = 0;  // next of its script
  bool inside = false;       // a call is under way
  std::int8_t task = -1;     // that a worker runs, or a pusher pushes
  std::int8_t access = 0;    // that a worker leaves
  std::uint8_t answers = 0;
  Kind next = Kind::none;  // the operation that it is about to do, and where
  std::uint16_t next_where = 0;
  Answer answer[k_answers];
};

void fail(const char* what);                     // the state breaks a rule: noted, exploring ends
[[noreturn]] void pause_here();                  // ends the step
bool may_go_on(Kind kind, std::uint16_t where);  // false: the step ends before this operation
extern Thread* running;                          // its record
extern int position;                             // in its answers
inline constexpr std::uint16_t k_nowhere = 0xffff;
std::uint16_t where_of(const void* address) noexcept;  // in the state; k_nowhere for copies on the stack
void check_alive(std::uint16_t where);                 // a node that has finished may be gone, a gate too

/// Does `act`, or repeats its answer.
template <class Act>
int operation(Kind kind, const void* address, Act&& act) {
  const std::uint16_t where = where_of(address);
  if (where == k_nowhere)
    return act();
  if (position < running->answers) {
    const Answer& before = running->answer[position++];
    if (before.where != where)
      fail("the checker itself: a repeated call did something else");
    return before.value;
  }
  if (!may_go_on(kind, where))
    pause_here();
  check_alive(where);
  const int value = act();
  if (running->answers == k_answers) {
    fail("the checker itself: too many operations in one call");
    pause_here();
  }
  running->answer[running->answers++] = {where, static_cast<std::int8_t>(value)};
  ++position;
  return value;
}

/// Stands for std::atomic; every interleaving is sequentially consistent here, memory orders are Relacy's part.
template <class T>
struct Atomic {
  T raw{};

  Atomic() = default;
  Atomic(T value) : raw(value) {}  // NOLINT: as std::atomic
  template <class Order>
  T load(Order) const {
    return static_cast<T>(operation(Kind::atomic, this, [&] { return static_cast<int>(raw); }));
  }
  template <class Order>
  void store(T value, Order) {
    operation(Kind::atomic, this, [&] { return raw = value, 0; });
  }
  template <class Order>
  T fetch_add(T value, Order) {
    return change([&] { return static_cast<T>(raw + value); });
  }
  template <class Order>
  T fetch_sub(T value, Order) {
    return change([&] { return static_cast<T>(raw - value); });
  }
  template <class Order>
  bool compare_exchange_weak(T& expected, T value, Order) {
    const T seen = static_cast<T>(operation(Kind::atomic, this, [&] {
      const T before = raw;
      if (before == expected)
        raw = value;
      return static_cast<int>(before);
    }));
    return seen == expected ? true : (expected = seen, false);
  }

 private:
  template <class New>
  T change(New&& changed) {
    return static_cast<T>(operation(Kind::atomic, this, [&] {
      const T before = raw;
      raw = changed();
      return static_cast<int>(before);
    }));
  }
};

/// A field that is not atomic.
template <class T>
struct Plain {
  T raw{};

  Plain() = default;
  Plain(const Plain& other) : raw(static_cast<T>(other)) {}
  Plain& operator=(const Plain& other) { return *this = static_cast<T>(other); }
  Plain& operator=(T value) {
    operation(Kind::plain_write, this, [&] { return raw = value, 0; });
    return *this;
  }
  operator T() const {  // NOLINT: as the field itself
    return static_cast<T>(operation(Kind::plain_read, this, [&] { return static_cast<int>(raw); }));
  }
};

/// Objects of type T have numbers: that is what is kept of a pointer to one.
template <class T>
struct Plain<T*> {
  std::int8_t raw = 0;

  Plain() = default;
  Plain(std::nullptr_t) {}  // NOLINT: as a pointer
  Plain(Plain&& other) : raw(T::number(other)) {}
  Plain(const Plain& other) : raw(T::number(other)) {}
  Plain& operator=(const Plain& other) { return *this = static_cast<T*>(other); }
  Plain& operator=(T* value) {
    operation(Kind::plain_write, this, [&] {
      T::written(this, value);
      return raw = T::number(value), 0;
    });
    return *this;
  }
  operator T*() const {  // NOLINT: as the pointer itself
    return T::at(operation(Kind::plain_read, this, [&] { return raw; }));
  }
  T* operator->() const { return static_cast<T*>(*this); }
};

/// A lock that a thread waits for by not being chosen.
struct Lock {
  bool held = false;

  void lock() {
    operation(Kind::lock, this, [&] { return held = true, 0; });
  }
  void unlock() {
    operation(Kind::unlock, this, [&] {
      if (!held)
        fail("a free lock was given up");
      return held = false, 0;
    });
  }
};

}  // namespace sluice::model
