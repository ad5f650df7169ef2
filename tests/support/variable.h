#pragma once

#include <cstdlib>

namespace sluice::test {

/// A variable of the environment, for as long as this lives; then it is unset. For a test's only thread.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace sluice::test
