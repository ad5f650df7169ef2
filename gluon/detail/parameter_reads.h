#pragma once

#include <vector>

#include <sluice/engine/detail/static_tls.h>
#include <sluice/gluon/parameter.h>

namespace sluice::gluon::detail {

/// A parameter that a program read, and the array that it was then.
struct ParameterRead {
  Parameter parameter;
  NDArray data;

  /// Is it another one now?
  bool is_outdated() const;
};

/// Notes whose arrays are asked for on this thread while it lives, each parameter once: a program that is traced may
/// use parameters of blocks that are no children of its own.
class ParameterReads {
 public:
  ParameterReads() noexcept;
  ParameterReads(const ParameterReads&) = delete;
  ParameterReads& operator=(const ParameterReads&) = delete;
  ~ParameterReads();

  void add(const Parameter& parameter, const NDArray& data);
  /// Those that `is_own` does not know.
  template <class IsOwn>
  std::vector<ParameterRead> others(const IsOwn& is_own) const {
    std::vector<ParameterRead> found;
    for (const ParameterRead& read : all_) {
      if (!is_own(read.parameter))
        found.push_back(read);
    }
    return found;
  }

 private:
  ParameterReads* const before_;
  std::vector<ParameterRead> all_;
};

/// The innermost one of this thread, or null.
SLUICE_STATIC_TLS extern constinit thread_local ParameterReads* t_parameter_reads;

}  // namespace sluice::gluon::detail
