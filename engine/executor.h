#pragma once

#include <functional>

namespace sluice {

/// Threads of the application that an engine runs its CPU tasks on, in place of workers of its own; run_on() of
/// <sluice/engine/asio.h> makes one from any Asio executor. While there is work the engine keeps a drain handler
/// posted, which runs up to 64 tasks or 100 us and posts itself again; an idle engine posts nothing and holds no work.
/// The executor must be served until the engine has stopped.
struct ExternalExecutor {
  /// Runs `work` once, later, never inside this call. Any thread may call it.
  std::function<void(std::function<void()> work)> post = {};
  /// At most so many drain handlers run at a time, and so many bodies that are not blocked. The executor should have as
  /// many threads; a strand has one.
  int concurrency = 1;
  /// True on the executor's threads (of a strand: inside it). May be empty, then only running drain handlers are known.
  std::function<bool()> runs_here = {};

  explicit operator bool() const noexcept { return post != nullptr; }
};

}  // namespace sluice
