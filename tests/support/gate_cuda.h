#pragma once

#include <memory>

namespace sluice::test {

/// A gate in a GPU stream: a kernel that ends when the test opens the gate, so that whatever is queued behind it cannot
/// have run before. It gives up after some seconds, so that it never hangs a GPU. Copies are the same gate.
class GpuGate {
 public:
  GpuGate();

  /// Called in a GPU body: enqueues the waiting kernel on a cudaStream_t. At most 64 times a gate.
  void hold(void* stream) const;
  void open() const noexcept;
  bool is_open() const noexcept;
  /// Blocks until the first waiting kernel runs. False if it never does.
  bool reached() const;
  /// True if a kernel gave up waiting: then the test has proven nothing.
  bool gave_up() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Opens its gate at the end of the scope.
class GpuGateOpensAtEnd {
 public:
  explicit GpuGateOpensAtEnd(GpuGate gate) : gate_(std::move(gate)) {}
  GpuGateOpensAtEnd(const GpuGateOpensAtEnd&) = delete;
  GpuGateOpensAtEnd& operator=(const GpuGateOpensAtEnd&) = delete;
  ~GpuGateOpensAtEnd() { gate_.open(); }

 private:
  GpuGate gate_;
};

}  // namespace sluice::test
