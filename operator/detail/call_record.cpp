#include <memory>

#include <sluice/engine/detail/node_pool.h>
#include <sluice/operator/detail/call_record.h>

namespace sluice::detail {

namespace {

using Records = NodePool<CallRecord, &CallRecord::next>;

// A list that has grown goes: every record of a loop that pushes far ahead would come to hold one as long as the
// longest, of a network's every step, say.
template <class Views>
void empty(Views& views) noexcept {
  if (views.capacity() <= Views::static_capacity) [[likely]]
    return views.clear();
  std::destroy_at(&views);  // a swap with an empty one would leave it without room of its own
  std::construct_at(&views);
}

}  // namespace

CallRecord* CallRecord::take() {
  return Records::take();
}

void CallRecord::give_back(CallRecord* record) noexcept {
  if (!record->attributes.empty())
    record->attributes = {};
  empty(record->inputs);
  empty(record->outputs);
  Records::give(record);
}

}  // namespace sluice::detail
