#pragma once

#include <functional>
#include <vector>

#include "tests/engine/model/explorer.h"

namespace sluice::model {

/// Every scenario of the suite, the cheap ones first. `visit` returns false to end.
void for_all_scenarios(const std::function<bool(const Scenario&)>& visit);

/// The families, for what they are worth alone.
std::vector<Scenario> one_var(int accesses, int workers, int hot_reads, bool every_operation);
std::vector<Scenario> dropped_var(int accesses, int hot_reads, bool every_operation);
std::vector<Scenario> reused_var(int hot_reads);
std::vector<Scenario> frozen_var(bool every_operation);
std::vector<Scenario> one_pusher_two_vars(int hot_reads);
std::vector<Scenario> crossing_pushers(int hot_reads);
std::vector<Scenario> crossing_with_closed_gates();
std::vector<Scenario> three_pushers();
std::vector<Scenario> tried_reads(int hot_reads);

}  // namespace sluice::model
