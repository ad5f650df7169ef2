#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <sluice/engine/detail/runner.h>
#include <sluice/engine/detail/static_tls.h>

namespace sluice::detail {

Runner Runner::here() noexcept {
  SLUICE_STATIC_TLS static thread_local constinit Runner mine;
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

namespace {

/// What the system says of a thread of this process.
struct Said {
  explicit Said(const char* thread) noexcept {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
      return;
    const ssize_t size = ::read(file, text_, sizeof text_ - 1);
    close(file);
    text_[size > 0 ? size : 0] = '\0';
    const char* const begin = std::strchr(text_, '(');
    const char* const end = std::strrchr(text_, ')');  // "7 (name) S ...", and the name may be anything
    if (begin == nullptr || end == nullptr || end[1] != ' ')
      return;
    name = {begin + 1, static_cast<std::size_t>(end - begin - 1)};
    runnable = end[2] == 'R' || end[2] == 'D';
  }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

  std::string_view name;
  bool runnable = false;

 private:
  char text_[256] = {};
};

bool is_called(std::string_view thread, std::string_view name) noexcept {
  if (thread == "sluice-team")
    return true;
  if (thread.size() <= name.size() + 1 || thread.substr(0, name.size()) != name || thread[name.size()] != '-')
    return false;
  return thread.find_first_not_of("0123456789", name.size() + 1) == std::string_view::npos;
}

}  // namespace

bool Runner::is_runnable() const noexcept {
  if (thread <= 0)
    return thread < 0;
  char number[24];
  std::snprintf(number, sizeof number, "%d", static_cast<int>(thread));
  return Said(number).runnable;
}

bool Runner::any_runnable_of(std::string_view name) noexcept {
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr)
    return false;
  const auto self = static_cast<long>(gettid());
  bool any = false;
  while (const dirent* entry = any ? nullptr : readdir(folder)) {
    if (entry->d_name[0] == '.' || std::strtol(entry->d_name, nullptr, 10) == self)
      continue;
    const Said said(entry->d_name);
    any = said.runnable && is_called(said.name, name);
  }
  closedir(folder);
  return any;
}

}  // namespace sluice::detail
