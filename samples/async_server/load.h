#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace samples {

struct LoadOptions {
  std::uint16_t port = 0;
  int connections = 16;
  int requests = 1000;  // a connection
  std::size_t features = 256;
};

struct LoadReport {
  std::vector<double> latencies;  // seconds, ascending
  double seconds = 0;
  int scores = 0, updates = 0, refusals = 0;
};

/// Opens the connections to the server on the loopback address and sends each one's requests, one after the other:
/// scores, now and then an update or a malformed request. Checks every answer; throws sluice::Error for a wrong one.
LoadReport run_load(const LoadOptions& options);

}  // namespace samples
