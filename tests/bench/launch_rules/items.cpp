#include <deque>
#include <string>

#include "tests/bench/launch_rules/launch_rules_cuda.h"
#include "tests/bench/support/patterns.h"

namespace launch_rules {

using namespace sluice;
using bench::KernelStep;

Items::Items(Engine& engine, Device device, int count)
    : engine_(engine),
      device_(device),
      there_(std::vector<std::uint64_t>(static_cast<std::size_t>(count), 1)),
      expected_(static_cast<std::size_t>(count), 1) {
  for (int i = 0; i < count; ++i)
    vars_.push_back(engine.new_var({.home = device}));
}

void Items::push(const KernelStep& step, const Kind& kind) {
  bench::Step one{step.target, {step.sources, step.sources + step.count}};
  bench::run_step(one, expected_.data(), 0);
  Task task{.name = kind.name, .device = device_, .access = {write(var(step.target))}, .capturable = kind.capturable};
  for (int source : one.sources)
    task.access.push_back(read(var(source)));
  std::uint64_t* const items = there_.data();
  if (kind.spoils) {
    engine_.push(task, [step, items](Queue queue) {
      bench::launch_step(queue.stream(), step, items);
      cudaStreamQuery(static_cast<cudaStream_t>(queue.stream()));
      cudaGetLastError();
    });
  } else if (kind.microseconds == 0) {
    engine_.push(task, [step, items](Queue queue) { bench::launch_step(queue.stream(), step, items); });
  } else {
    engine_.push(task, [step, items, microseconds = kind.microseconds](Queue queue) {
      bench::launch_long_step(queue.stream(), step, items, microseconds);
    });
  }
}

void Items::check(bench::Report& report, const std::string& what) {
  engine_.wait_all();
  report.expect(there_.values() == expected_, what);
}

const std::vector<TaskName>& names() {
  static const auto* const texts = [] {
    auto* made = new std::deque<std::string>;  // lasts as long as the process
    for (int i = 0; i < 512; ++i)
      made->push_back(message("step ", i));
    return made;
  }();
  static const std::vector<TaskName> all = [] {
    std::vector<TaskName> made;
    for (const std::string& text : *texts)
      made.push_back(TaskName::lasting(text.c_str()));
    return made;
  }();
  return all;
}

}  // namespace launch_rules
