// What a kernel run is told lies in records that are used again: they may not come to hold all that any call needed.
#include <cstddef>
#include <vector>

#include <sluice/operator/detail/call_record.h>

#include "tests/support/catch.h"

using namespace sluice;
using detail::CallRecord;

namespace {

constexpr std::size_t k_own_inputs = decltype(CallRecord::inputs)::static_capacity;
constexpr std::size_t k_own_outputs = decltype(CallRecord::outputs)::static_capacity;

CallRecord* taken_with(std::size_t inputs, std::size_t outputs) {
  CallRecord* const record = CallRecord::take();
  for (std::size_t i = 0; i < inputs; ++i)
    record->inputs.emplace_back();
  for (std::size_t i = 0; i < outputs; ++i)
    record->outputs.emplace_back();
  return record;
}

}  // namespace

TEST_CASE("A record gives back the memory of long lists, and keeps its own", "[operator][memory]") {
  for (const std::size_t beyond : {std::size_t{0}, std::size_t{1}, std::size_t{100}}) {
    INFO("beyond its own: " << beyond);
    CallRecord* const record = taken_with(k_own_inputs + beyond, k_own_outputs + beyond);
    CHECK((record->inputs.capacity() > k_own_inputs) == (beyond > 0));
    CallRecord::give_back(record);
    CallRecord* const again = CallRecord::take();  // what a thread gave last it takes first
    CHECK(again == record);
    CHECK(again->inputs.empty());
    CHECK(again->outputs.empty());
    CHECK(again->inputs.capacity() == k_own_inputs);
    CHECK(again->outputs.capacity() == k_own_outputs);
    CallRecord::give_back(again);
  }
}

TEST_CASE("However many records are out, none comes back with a long list", "[operator][memory]") {
  std::vector<CallRecord*> records;
  for (std::size_t i = 0; i < 300; ++i)
    records.push_back(taken_with(i % 40, 1));
  for (CallRecord* const record : records)
    CallRecord::give_back(record);
  records.clear();
  for (std::size_t i = 0; i < 300; ++i) {
    records.push_back(CallRecord::take());
    CHECK(records.back()->inputs.capacity() == k_own_inputs);
  }
  for (CallRecord* const record : records)
    CallRecord::give_back(record);
}
