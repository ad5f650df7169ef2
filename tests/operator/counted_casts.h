#pragma once

#include <string>

#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>

namespace sluice::test {

/// Runs calls, and counts those of astype.
class Casts final : public CallSink {
 public:
  int count = 0;

  Arrays take(const OperatorCall& call) override {
    count += std::string(call.op.name) == "astype" ? 1 : 0;
    return invoke(call.op, call.inputs, call.attributes, call.site, call.destinations);
  }
};

}  // namespace sluice::test
