#pragma once

// Relacy's atomics and variables in the shape of ours: each access asks Relacy, which explores weak memory and finds
// races on plain fields. The engine's headers come first: Relacy's are macros over the names of the standard library.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <relacy/relacy.hpp>
#include <streambuf>
#include <type_traits>
#include <typeinfo>

namespace sluice::weak {

using Word = std::intptr_t;

template <class T>
Word to_word(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<Word>(value);
  } else {
    return static_cast<Word>(value);
  }
}
template <class T>
T from_word(Word word) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(word);
  } else {
    return static_cast<T>(word);
  }
}

inline rl::memory_order order_of(std::memory_order order) {
  return static_cast<rl::memory_order>(static_cast<int>(order));  // named alike, in the same order
}

template <class T>
class Atomic {
 public:
  Atomic(T value = T{}) { word_.store(to_word(value), rl::mo_relaxed, $); }  // NOLINT: as std::atomic
  T load(std::memory_order order) const { return from_word<T>(word_.load(order_of(order), $)); }
  void store(T value, std::memory_order order) { word_.store(to_word(value), order_of(order), $); }
  T exchange(T value, std::memory_order order) {
    return from_word<T>(word_.exchange(to_word(value), order_of(order), $));
  }
  T fetch_add(T value, std::memory_order order) {
    return from_word<T>(word_.fetch_add(to_word(value), order_of(order), $));
  }
  T fetch_sub(T value, std::memory_order order) {
    return from_word<T>(word_.fetch_sub(to_word(value), order_of(order), $));
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order order) {
    return compare_exchange_weak(expected, value, order, std::memory_order(std::memory_order::relaxed));
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order order, std::memory_order failed) {
    Word seen = to_word(expected);
    const bool done = word_.compare_exchange_weak(seen, to_word(value), order_of(order), $, order_of(failed), $);
    expected = from_word<T>(seen);
    return done;
  }

 private:
  mutable rl::atomic<Word> word_;
};

template <class T>
class Plain {
 public:
  Plain(T value = T{}) : word_(to_word(value)) {}  // NOLINT: as the field itself
  Plain(const Plain& other) : word_(to_word(static_cast<T>(other))) {}
  Plain& operator=(const Plain& other) { return *this = static_cast<T>(other); }
  Plain& operator=(T value) {
    word_($) = to_word(value);
    return *this;
  }
  operator T() const { return from_word<T>(const_cast<rl::var<Word>&>(word_)($).load()); }  // NOLINT: likewise
  T operator->() const { return static_cast<T>(*this); }

 private:
  rl::var<Word> word_;
};

class Lock {
 public:
  void lock() { mutex_.lock($); }
  void unlock() { mutex_.unlock($); }

 private:
  rl::mutex mutex_;
};

/// Swallows what Relacy says of a fault that is expected. (No string stream: Relacy watches the heap.)
class Nowhere final : public std::streambuf {
  int overflow(int character) override { return character; }
  std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
};

/// Explores `rounds` executions at random. True if nothing was found; what was found is told, unless it is expected.
/// rl::simulate does as much, and is compiled for each suite with two other searches that nobody asks for.
template <class Suite>
bool explore(unsigned rounds, bool expected) {
  using Search = rl::random_scheduler<Suite::params::thread_count>;
  Nowhere nowhere;
  std::ostream quiet(&nowhere);
  rl::test_params parameters;
  parameters.iteration_count = rounds;
  parameters.execution_depth_limit = 10'000;
  parameters.output_stream = expected ? &quiet : &std::cout;
  parameters.progress_stream = &quiet;
  parameters.test_name = typeid(Suite).name();
  rl::ostringstream state;
  const rl::test_result_e result = rl::run_test<Suite, Search>(parameters, state, false);
  if (result != rl::test_result_success) {  // once more from where it began, and told
    parameters.initial_state = parameters.final_state = state.str();
    parameters.collect_history = true;
    rl::ostringstream end;
    if (rl::run_test<Suite, Search>(parameters, end, true) != result)
      std::abort();  // the suite does not do the same twice
  }
  return result == Suite::params::expected_result;
}

}  // namespace sluice::weak
