#pragma once

// What must hold (engine.md 2.2: V1 to V6), and the steps that threads take.
#include "tests/engine/model/explorer.h"

namespace sluice::model {

extern bool stop_everywhere;
extern int hot_read_limit;
extern const char* violation;  // null: none

/// Runs `call` for the thread up to the end of its step. True if the call is over.
bool run_step(Thread& thread, void (*call)(Thread&));

/// What a thread can do now: go on with its call, or, for an idle worker, run that task.
struct Choice {
  std::int8_t thread;
  std::int8_t task;
};
int choices(const Scenario& scenario, Choice* out);
void take(const Scenario& scenario, Choice choice);

void set_up(const Scenario& scenario);
/// What holds between any two steps, and what holds at the end, when nobody can go on.
void check_state(const Scenario& scenario);
void check_end(const Scenario& scenario);

std::string describe(Choice choice);

}  // namespace sluice::model
