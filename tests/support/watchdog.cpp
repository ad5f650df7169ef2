// A test case that makes no end is a failure with a name and the stacks of its threads, and what ran before it counts
// (T13); after some quiet seconds it is asked what it is about, and goes on. What "no end" means stands in
// progress_judge.h. SLUICE_QUIET_SECONDS, SLUICE_HANG_SECONDS and SLUICE_TURN_SECONDS in the environment say other
// limits than its own.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <mutex>
#include <spawn.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.h"
#include "tests/support/counts.h"
#include "tests/support/hang_report.h"
#include "tests/support/progress_judge.h"
#include "tests/support/scale.h"

extern char** environ;  // NOLINT: the name that POSIX gives it

namespace {

using sluice::test::ProgressJudge;
using sluice::test::ProgressLimits;

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

ProgressLimits limits() {
  ProgressLimits result;
  if (sluice::test::k_slowdown > 1)
    result = {.quiet_seconds = 0, .idle_seconds = 120, .cpu_seconds = 1200};
  if (const char* seconds = std::getenv("SLUICE_QUIET_SECONDS"))
    result.quiet_seconds = std::atoi(seconds);
  if (const char* seconds = std::getenv("SLUICE_HANG_SECONDS"))
    result.idle_seconds = std::atoi(seconds);
  if (const char* seconds = std::getenv("SLUICE_TURN_SECONDS"))
    result.cpu_seconds = std::atof(seconds);
  return result;
}

/// The first bytes of a file of the system's. Without the heap: tests count its calls.
template <std::size_t Room>
const char* read_into(char (&text)[Room], const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? 0 : read(file, text, Room - 1);
  if (file >= 0)
    close(file);
  text[size > 0 ? size : 0] = '\0';
  return text;
}

/// Seconds of CPU time of the children that are alive and of the one thread that starts them, as Linux lists them.
double cpu_of_living_children() {
  double ticks = 0;
  char path[64], list[4096], text[1024];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(getpid()));
  const char* at = read_into(list, path);
  int used = 0;
  for (int child = 0; std::sscanf(at, "%d%n", &child, &used) == 1; at += used) {
    std::snprintf(path, sizeof path, "/proc/%d/stat", child);
    const char* const name_end = std::strrchr(read_into(text, path), ')');
    long user = 0, system = 0;
    // After the name: state, ppid, pgrp, session, tty, tpgid, flags, four counts of page faults, utime, stime.
    if (name_end != nullptr &&
        std::sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) == 2)
      ticks += static_cast<double>(user + system);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double cpu_seconds() {
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  rusage ended{};
  getrusage(RUSAGE_CHILDREN, &ended);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec) + seconds(ended.ru_utime) +
         seconds(ended.ru_stime) + cpu_of_living_children();
}

/// Seconds that the threads of this program were ready to run and had no processor; 0 where Linux does not tell.
double delayed_seconds() {
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  double nanoseconds = 0;
  alignas(dirent64) char entries[4096];
  for (long bytes; folder >= 0 && (bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;) {
    for (long at = 0; at < bytes; at += reinterpret_cast<const dirent64*>(entries + at)->d_reclen) {
      char path[64], text[128];
      const long thread = std::atol(reinterpret_cast<const dirent64*>(entries + at)->d_name);
      std::snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", thread);
      double delay = 0;
      if (thread > 0 && std::sscanf(read_into(text, path), "%*f %lf", &delay) == 1)
        nanoseconds += delay;
    }
  }
  if (folder >= 0)
    close(folder);
  return 1e-9 * nanoseconds;
}

/// Writes the stack of every thread to standard error, by gdb where there is one.
void print_stacks() {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  std::string shell = "/bin/sh", flag = "-c";
  std::string command =
      "command -v gdb >/dev/null || { echo 'HANG: no gdb here, hence no stacks'; exit; }; exec timeout 120 gdb -nx "
      "-batch "
      "-iex 'set debuginfod enabled off' -p " +
      std::to_string(getpid()) + " -ex 'thread apply all backtrace 24' 2>&1 | grep -v -e '^.New LWP' -e 'in Catch::'";
  char* arguments[] = {shell.data(), flag.data(), command.data(), nullptr};
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0)
    return;
  pid_t child = 0;
  int status = 0;
  if (posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO) == 0 &&
      posix_spawn(&child, shell.c_str(), &actions, nullptr, arguments, environ) == 0)
    waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
}

void print_report() {
  if (auto* const report = sluice::test::hang_report.load())
    report();
}

/// One thread that ends the program when it makes no progress. It starts with the first test case.
class Watchdog {
 public:
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }

  void starts(const std::string& name) {
    {
      const std::lock_guard lock(mutex_);
      name_ = name;
    }
    if (!thread_.joinable())
      thread_ = std::thread([this] { watch(); });
  }
  void step(const Catch::SourceLineInfo& place) {
    file_ = place.file;
    line_ = place.line;
    ++steps_;
  }

 private:
  void watch() {
    ProgressJudge judge(limits());
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, std::chrono::seconds(1), [this] { return is_over_; })) {
      const ProgressJudge::Verdict verdict = judge.tick(steps_, cpu_seconds(), delayed_seconds());
      if (judge.became_quiet() && sluice::test::hang_report.load() != nullptr) {
        std::fprintf(
            stderr, "QUIET: test case \"%s\", last seen at %s:%zu\n", name_.c_str(), file_.load(), line_.load());
        print_report();
      }
      if (verdict != ProgressJudge::Verdict::going)
        end_program(verdict);
    }
  }

  [[noreturn]] void end_program(ProgressJudge::Verdict verdict) {
    const ProgressLimits limit = limits();
    std::string why = "for " + std::to_string(limit.idle_seconds) + " s, nor used CPU time";
    if (verdict == ProgressJudge::Verdict::turning)
      why = "in " + std::to_string(static_cast<int>(limit.cpu_seconds)) + " s of CPU time";
    std::fprintf(
        stderr,
        "HANG: test case \"%s\" has made no progress %s; last seen at %s:%zu. The cases after it did not run.\n",
        name_.c_str(),
        why.c_str(),
        file_.load(),
        line_.load());
    print_report();
    print_stacks();
    sluice::test::print_counts(true);
    std::_Exit(1);
  }

  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::string name_;
  std::atomic<const char*> file_{"its beginning"};
  std::atomic<std::size_t> line_{0};
  std::atomic<std::uint64_t> steps_{0};
  std::thread thread_;
};

/// Tells the watchdog of every sign of progress.
struct ProgressReporter : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    watchdog_.starts(info.name);
    watchdog_.step(info.lineInfo);
  }
  void sectionStarting(const Catch::SectionInfo& info) override {
    ListenerBase::sectionStarting(info);
    watchdog_.step(info.lineInfo);
  }
  void assertionStarting(const Catch::AssertionInfo& info) override { watchdog_.step(info.lineInfo); }

 private:
  Watchdog watchdog_;
};
CATCH_REGISTER_LISTENER(ProgressReporter)

}  // namespace
