#include <sluice/engine/detail/node_pool.h>
#include <sluice/operator/detail/call_record.h>

namespace sluice::detail {

namespace {

// Whole records, so that what a long list of inputs took from the heap is taken once.
using Records = NodePool<CallRecord, &CallRecord::next>;

}  // namespace

CallRecord* CallRecord::take() {
  return Records::take();
}

void CallRecord::give_back(CallRecord* record) noexcept {
  if (!record->attributes.empty())
    record->attributes = {};
  record->inputs.clear();
  record->outputs.clear();
  Records::give(record);
}

}  // namespace sluice::detail
