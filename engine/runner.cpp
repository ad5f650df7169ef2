#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <sluice/engine/detail/runner.h>

namespace sluice::detail {

Runner Runner::here() noexcept {
  static thread_local constinit Runner mine;
  if (mine.thread == 0) [[unlikely]] {
    if (pthread_getcpuclockid(pthread_self(), &mine.clock) != 0)
      mine.clock = 0;
    mine.thread = gettid();
  }
  return mine;
}

std::chrono::nanoseconds Runner::cpu_time() const noexcept {
  timespec time{};
  if (clock == 0 || clock_gettime(clock, &time) != 0)
    return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool Runner::is_runnable() const noexcept {
  if (thread <= 0)
    return thread < 0;
  char path[64], text[256];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", static_cast<int>(thread));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  text[size > 0 ? size : 0] = '\0';
  const char* const name_end = std::strrchr(text, ')');  // "7 (name) S ...", and the name may be anything
  return name_end != nullptr && name_end[1] == ' ' && (name_end[2] == 'R' || name_end[2] == 'D');
}

}  // namespace sluice::detail
