#include "samples/stress/seen.h"

#include <stdexcept>

namespace samples::stress {

using namespace sluice;

namespace {

/// What a body throws on purpose.
class Planted : public Error {
 public:
  explicit Planted(std::uint32_t task) : Error(sluice::message("planted in task ", task)), task(task) {}
  std::uint32_t task;
};

class Foreign : public std::runtime_error {
 public:
  explicit Foreign(std::uint32_t task) : std::runtime_error("foreign"), task(task) {}
  std::uint32_t task;
};

struct Number {
  std::uint32_t task;
};

void look_inside(const TaskFailed& error, Seen& seen) {
  try {
    std::rethrow_if_nested(error);
  } catch (const Foreign& inner) {
    seen.thrown = Thrown::planted;
    seen.task = inner.task;
  } catch (const Number& inner) {
    seen.thrown = Thrown::planted;
    seen.task = inner.task;
  } catch (...) {
    seen.text += " (with something nested that nobody threw)";
  }
}

}  // namespace

void throw_fault(const TaskPlan& task) {
  if (task.fault == Fault::error)
    throw Planted(task.number);
  if (task.fault == Fault::foreign)
    throw Foreign(task.number);
  throw Number{task.number};
}

Seen seen_of(std::exception_ptr error) {
  Seen seen{.done = true, .thrown = Thrown::other};
  try {
    std::rethrow_exception(std::move(error));
  } catch (const Planted& planted) {
    seen.thrown = Thrown::planted;
    seen.task = planted.task;
    seen.record = planted.record();
    seen.text = planted.what();
  } catch (const Cancelled& cancelled) {
    seen.thrown = Thrown::cancelled;
    seen.record = cancelled.record();
    seen.text = cancelled.what();
  } catch (const TaskFailed& failed) {
    seen.record = failed.record();
    seen.text = failed.what();
    look_inside(failed, seen);
  } catch (const std::exception& other) {
    seen.text = other.what();
  } catch (...) {
    seen.text = "something that is no exception";
  }
  return seen;
}

}  // namespace samples::stress
