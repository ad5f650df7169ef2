#include <algorithm>
#include <utility>

#include <sluice/gluon/detail/parameter_reads.h>

namespace sluice::gluon::detail {

SLUICE_STATIC_TLS constinit thread_local ParameterReads* t_parameter_reads = nullptr;

bool ParameterRead::is_outdated() const {
  return !parameter.is_initialized() || !parameter.data().same(data);
}

ParameterReads::ParameterReads() noexcept : before_(std::exchange(t_parameter_reads, this)) {}

ParameterReads::~ParameterReads() {
  t_parameter_reads = before_;
}

void ParameterReads::add(const Parameter& parameter, const NDArray& data) {
  const bool is_known =
      std::any_of(all_.begin(), all_.end(), [&](const ParameterRead& read) { return read.parameter.same(parameter); });
  if (!is_known)
    all_.push_back({parameter, data});
}

}  // namespace sluice::gluon::detail
