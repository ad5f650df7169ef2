#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.h"

extern char** environ;  // NOLINT: the name that POSIX gives it

namespace sluice::test {

/// True in a process that run_case_alone() made.
inline bool runs_alone() noexcept {
  return std::getenv("SLUICE_TEST_ALONE") != nullptr;
}

/// Exit code of a child that runs `body`; its steps are numbered, so that the code says which one failed. 0 = all held.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      alarm(50);
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in a child: %s\n", error.what());
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/// Runs the test cases that `filter` selects in a new process of this program, which writes to standard error, and
/// waits for it. Its exit status: 0 if there are such cases and they passed; 128 and a signal's number if it was
/// killed; -1 if it could not be started.
inline int run_case_alone(std::string filter) {
  std::string program = "/proc/self/exe";
#if CATCH_VERSION_MAJOR >= 3
  std::string warn = "--rng-seed=1";  // that there are no such cases is an error anyway
#else
  std::string warn = "--warn=NoTests";
#endif
  char* arguments[] = {program.data(), filter.data(), warn.data(), nullptr};
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0)
    return -1;
  setenv("SLUICE_TEST_ALONE", "1", 1);
  pid_t child = 0;
  int status = 0;
  const bool ran = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO) == 0 &&
                   posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ) == 0 &&
                   waitpid(child, &status, 0) == child;
  unsetenv("SLUICE_TEST_ALONE");
  posix_spawn_file_actions_destroy(&actions);
  if (!ran)
    return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace sluice::test
