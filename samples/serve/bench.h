#pragma once

#include <cstdint>
#include <vector>

namespace samples {

struct BenchOptions {
  std::uint16_t port = 0;
  int connections = 16;
  int window = 16;      // requests of a connection that are open at once
  int requests = 2000;  // of a connection
};

struct BenchReport {
  std::vector<float> latencies;  // microseconds, ascending
  double seconds = 0;
  std::uint64_t busy = 0;  // answers that said so
};

/// Asks a server on the loopback address, each connection on a thread of its own, for a few samples of random numbers.
/// Throws sluice::Error for errors of the network, for answers that say that something failed, and where the answers to
/// one sample differ by more than rounding.
BenchReport run_bench(const BenchOptions& options);

}  // namespace samples
