#include <optional>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/operator/workspace.h>
#include <sluice/storage/storage.h>

namespace sluice {

Workspace::Workspace(const Queue& queue, std::size_t bytes) {
  std::optional<std::uint16_t> stream;
  if (queue.device().is_gpu())
    stream = queue.position().stream();
  chunk_ = Storage::of(queue.engine()).pool(queue.device()).acquire(bytes, stream);
  if (queue.device().is_cpu())
    return;
  queue.wait_for(chunk_.pending);
  // From here on the stream itself has passed what earlier owners left.
  chunk_.pending.clear();
  chunk_.pending.add(queue.position());
}

Workspace::~Workspace() {
  if (chunk_)
    chunk_.pool->release(std::move(chunk_));
}

}  // namespace sluice
