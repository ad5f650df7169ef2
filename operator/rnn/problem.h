#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/half_types.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/rnn/composed.h>

namespace sluice::detail {

/// What the operators `rnn` and `rnn_backward` are told.
struct RnnAttributes {
  std::string mode = "lstm";
  std::int64_t state_size = 0;
  std::int64_t num_layers = 1;
  bool bidirectional = false;
  bool keep = false;  // what the gradient reads: the last result, otherwise empty

  template <class V>
  void visit(V&& v) {
    v.field("mode", mode);
    v.field("state_size", state_size);
    v.field("num_layers", num_layers);
    v.field("bidirectional", bidirectional);
    v.field("keep", keep);
  }
};

/// rnn_relu, rnn_tanh, lstm or gru. Throws ValueError for another, naming `op`.
RnnMode rnn_mode_of(const char* op, const std::string& name);
const char* rnn_mode_name(RnnMode mode) noexcept;

/// The extents of a call and where its parameters lie in the one array of them.
struct RnnProblem {
  RnnMode mode = RnnMode::lstm;
  DType dtype = DType::float32;
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0, layers = 1, directions = 1;

  std::int64_t gates() const noexcept { return gates_of(mode); }
  bool has_cells() const noexcept { return mode == RnnMode::lstm; }
  std::int64_t width() const noexcept { return directions * hidden; }  // of what a layer gives
  std::int64_t input_of(std::int64_t layer) const noexcept { return layer == 0 ? input : width(); }
  std::int64_t rows() const noexcept { return gates() * hidden; }
  std::int64_t input_weights(std::int64_t layer, std::int64_t direction) const noexcept;
  std::int64_t state_weights(std::int64_t layer, std::int64_t direction) const noexcept;
  std::int64_t input_bias(std::int64_t layer, std::int64_t direction) const noexcept;
  std::int64_t state_bias(std::int64_t layer, std::int64_t direction) const noexcept;
  std::int64_t parameters() const noexcept { return input_bias(layers, 0); }
  Shape state_shape() const { return {layers * directions, batch, hidden}; }
  Shape y_shape() const { return {steps, batch, width()}; }

  /// A step's and sample's numbers that the gradient reads beside y and the states, in float32 or float64.
  std::int64_t kept_gates() const noexcept { return mode == RnnMode::lstm || mode == RnnMode::gru ? 4 : 0; }
  std::int64_t cpu_reserve() const noexcept;
};

/// Whether kernels that keep one layer's weights in registers over all steps are worth asking cuDNN for, on a GPU of
/// that capability (90: 9.0) with so many processors. The rule is PyTorch's, which found it by trying.
bool suits_persistent_kernels(const RnnProblem& problem, int capability, int processors) noexcept;

/// Checks mode, sizes and the first inputs, x and parameters. Throws ShapeError, DTypeError, ValueError.
RnnProblem rnn_problem(const Operator& op, const ArraySpec& x, const ArraySpec& parameters, const RnnAttributes& how);
/// The same of a call that has been checked.
RnnProblem rnn_problem(const TensorView& x, const RnnAttributes& how);

extern const Operator rnn_op;
/// x, parameters, y, what was kept, the gradients of y, h and, of an LSTM, c, then the states that there were; gives
/// the gradients of x, the parameters, h and c.
extern const Operator rnn_backward_op;
/// The same of sequences of several lengths, which stand behind x and the parameters (N,). Their kernels are for CPUs,
/// elsewhere they are compositions.
extern const Operator rnn_lengths_op, rnn_lengths_backward_op;
inline bool takes_lengths(const Operator& op) noexcept {
  return &op == &rnn_lengths_op || &op == &rnn_lengths_backward_op;
}

/// Where the arrays of a pass are. Null: states that are zeros; of a forward pass `kept` that nobody reads.
struct RnnData {
  const void *x = nullptr, *parameters = nullptr, *h0 = nullptr, *c0 = nullptr;
  const std::int64_t* lengths = nullptr;  // of N samples, 0 to T, on a CPU alone; null: all are T
  void *y = nullptr, *h = nullptr, *c = nullptr, *kept = nullptr;
  const void *dy = nullptr, *dh = nullptr, *dc = nullptr;                      // backward: heads
  void *dx = nullptr, *dparameters = nullptr, *dh0 = nullptr, *dc0 = nullptr;  // and results
};
/// But for lengths: those are rnn_lengths().
RnnData rnn_forward_data(const KernelCall& call, const RnnProblem& problem);
RnnData rnn_backward_data(const KernelCall& call, const RnnProblem& problem);

/// The lengths of a call on a CPU; empty where all steps are everybody's. Throws IndexError outside 0 .. T.
std::vector<std::int64_t> rnn_lengths(const KernelCall& call, const RnnProblem& problem);

/// A pass on this thread and idle workers, on arrays that the host reaches; no extent is 0. What is kept is null, or of
/// wide_type() and cpu_reserve() long: of plain networks it is empty, and not null.
void rnn_on_host(const Queue& queue, const RnnProblem& problem, const RnnData& data, bool is_backward);

void rnn_cpu(const KernelCall& call);
void rnn_backward_cpu(const KernelCall& call);
void rnn_gpu(const KernelCall& call);
void rnn_backward_gpu(const KernelCall& call);

/// Whether the device is a GPU, this build has CUDA, and rnn_has_library().
bool is_for_library(Device device, const RnnProblem& problem);
/// Whether a library of GPUs' takes such a problem, whatever steps and batch. No task, no wait; the first time of a
/// problem takes some milliseconds.
bool rnn_has_library(Device device, const RnnProblem& problem);
/// suits_persistent_kernels() on that GPU; and whether that problem, of those steps and that batch, goes to them: where
/// cuDNN refuses, its other kernels serve.
bool rnn_asks_persistent(Device device, const RnnProblem& problem);
bool rnn_is_persistent(Device device, const RnnProblem& problem);
/// Bytes that it keeps from forward for backward; 0 where it does not take the problem.
std::int64_t rnn_library_reserve(Device device, const RnnProblem& problem);
/// Enqueues a pass; no extent is 0. Throws LibraryError, UnsupportedError.
void rnn_by_library(const Queue& queue, const RnnProblem& problem, const RnnData& data, bool is_backward);

}  // namespace sluice::detail
