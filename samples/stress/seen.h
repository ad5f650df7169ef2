#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <sluice/engine/error.h>

#include "samples/stress/plan.h"

// What bodies throw on purpose, and what waits make of it.
namespace samples::stress {

enum class Thrown : std::uint8_t { nothing, planted, cancelled, other };

/// What one wait saw.
struct Seen {
  bool done = false;
  Thrown thrown = Thrown::nothing;
  std::uint32_t task = 0;  // planted: the task that threw it
  std::shared_ptr<sluice::FailureRecord> record = {};
  std::string text = {};    // of what was thrown
  std::uint64_t value = 0;  // of the cell, for waits on cells that are not shared
  std::uint64_t writers = 0;
};

/// Throws what the task's `fault` says.
[[noreturn]] void throw_fault(const TaskPlan& task);

/// What a wait that ended with `error` saw.
Seen seen_of(std::exception_ptr error);

/// Writes down what `wait` throws.
template <class Wait>
Seen seen_by(Wait&& wait) {
  try {
    std::forward<Wait>(wait)();
  } catch (...) {
    return seen_of(std::current_exception());
  }
  return {.done = true};
}

}  // namespace samples::stress
