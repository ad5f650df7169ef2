#include <utility>

#include <sluice/engine/detail/push_room.h>
#include <sluice/operator/call_room.h>
#include <sluice/operator/detail/call_record.h>

namespace sluice::detail {

struct CallRoom::Held {
  explicit Held(int calls) : pushes(calls) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    while (records != nullptr)
      CallRecord::give_back(std::exchange(records, records->next));
  }

  PushRoom pushes;
  CallRecord* records = nullptr;
};

CallRoom::CallRoom(int calls) {
  if (calls == 0)
    return;
  held_ = std::make_unique<Held>(calls);
  for (int i = 0; i < calls; ++i) {
    CallRecord* const record = CallRecord::take();
    record->next = std::exchange(held_->records, record);
  }
}

CallRoom::~CallRoom() = default;

void CallRoom::open() noexcept {
  held_.reset();
}

}  // namespace sluice::detail
