#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/stream.h>
#include <sluice/engine/error.h>
#include <sluice/engine/queue.h>

namespace sluice {

void* Queue::stream() const {
  return stream_ == nullptr ? nullptr : stream_->native();
}
Position Queue::position() const {
  return stream_ == nullptr ? Position() : stream_->current_position();
}
ErrorWord* Queue::error_word() const {
  return stream_ == nullptr ? nullptr : stream_->error_word();
}

void Queue::wait_for(const PositionSet& positions) const {
  if (stream_ != nullptr)
    stream_->wait_for(positions);
}

bool Queue::stop_requested() const noexcept {
  return task_ != nullptr && task_->core->stop_requested(*task_);
}

std::shared_ptr<void>& Queue::slot_at(int id) const {
  require(stream_ != nullptr, [] { return std::string("slot: only GPU tasks have a stream with slots"); });
  detail::check_slot(id);
  return stream_->slot(static_cast<std::size_t>(id));
}

}  // namespace sluice
