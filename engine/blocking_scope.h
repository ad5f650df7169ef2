#pragma once

#include <sluice/engine/export.h>

namespace sluice {

/// While it lives, the body on this thread is about to block on something that the engine knows nothing of: a file, a
/// socket, another library. Another thread takes the worker's place meanwhile, made if need be, so that ready tasks
/// run; at its end the thread waits for its place. Does nothing outside CPU tasks, inside another one of the same
/// thread, and under policies without workers of their own. Waits of the engine need none: they do so themselves.
class SLUICE_API BlockingScope {
 public:
  BlockingScope();
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;
  ~BlockingScope();

 private:
  bool blocks_ = false;
  bool gave_pool_ = false;
};

}  // namespace sluice
