#include <algorithm>

#include <sluice/operator/half_types.h>
#include <sluice/operator/library/channel.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/rnn/gates_cpu.h>
#include <sluice/operator/rnn/layers_cpu.h>
#include <sluice/operator/rnn/packed_steps.h>

namespace sluice::detail {
namespace {

/// Gradients of all gates (T * N, gates * hidden), as inputs and as the state before see them.
template <class T>
struct GateGradients {
  T *of_x, *of_h;
};

template <class T>
class Backward {
 public:
  Backward(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass, GateGradients<T> gradients)
      : p_(p), pass_(pass), gradients_(gradients), steps_(queue, p.batch, p.hidden, 1, p.rows()) {
    const T* const weights = pass.parameters + p.state_weights(pass.layer, pass.direction);
    steps_.pack_weights(p.hidden, [&](std::int64_t, std::int64_t unit) { return weights + unit; });
  }

  // From the last step to the first, then to the states before it.
  void run() {
    for (std::int64_t i = p_.steps - 1; i >= 0; --i) {
      steps_.step(i + 1 < p_.steps, no_bias, [&](const Part& part) {
        for (std::int64_t n = 0; n < part.rows; ++n)
          run_row(i, part, n);
      });
      steps_.advance();
    }
    steps_.step(true, no_bias, [&](const Part& part) {
      for (std::int64_t n = 0; n < part.rows; ++n) {
        const std::int64_t length = pass_.length(p_, part.row + n);
        if (pass_.direction == 0 ? length > 0 : length == p_.steps)  // others have had it
          add_to_first_state(part, n);
      }
    });
  }

 private:
  using Part = typename PackedSteps<T>::Part;
  static const T* no_bias(std::int64_t, std::int64_t) noexcept { return nullptr; }

  std::int64_t step_of(std::int64_t i) const noexcept { return pass_.direction == 0 ? i : p_.steps - 1 - i; }
  const T* cells_of(std::int64_t i) const noexcept { return pass_.cells + step_of(i) * p_.batch * p_.hidden; }
  const T* y_of(std::int64_t i) const noexcept { return pass_.y + step_of(i) * p_.batch * p_.width(); }

  void add_to_first_state(const Part& part, std::int64_t n) {
    T* const to = pass_.carry + (part.row + n) * p_.hidden + part.unit;
    for (std::int64_t j = 0; j < part.units; ++j)
      to[j] += part.product[n * part.stride + j];
  }

  // Beyond a sequence gates have no gradients. Going backwards its first step was the one before.
  void stay(std::int64_t step, std::int64_t length, const Part& part, std::int64_t n) {
    const std::int64_t point = step * p_.batch + part.row + n;
    for (std::int64_t gate = 0; gate < p_.gates(); ++gate) {
      const std::int64_t place = point * p_.rows() + gate * p_.hidden + part.unit;
      std::fill_n(gradients_.of_x + place, part.units, T{});
      std::fill_n(gradients_.of_h + place, part.units, T{});
    }
    if (pass_.direction == 1 && step == length && length > 0)
      add_to_first_state(part, n);
  }

  void run_row(std::int64_t i, const Part& part, std::int64_t n) {
    const std::int64_t hidden = p_.hidden, row = part.row + n, step = step_of(i), point = step * p_.batch + row;
    const std::int64_t length = pass_.length(p_, row);
    if (step >= length)
      return stay(step, length, part, n);
    const bool is_first = pass_.begins_with(step, length);
    const std::int64_t place = row * hidden + part.unit, in_y = row * p_.width() + part.unit;
    simd::GateStepBack<T> s{.n = part.units, .kept_step = hidden, .x_step = hidden, .h_step = hidden};
    s.head = pass_.dy + step * p_.batch * p_.width() + in_y;
    s.from_h = pass_.ends_with(step, length) ? nullptr : part.product + n * part.stride;
    s.carry = pass_.carry + place;
    s.kept = pass_.gates + point * p_.kept_gates() * hidden + part.unit;
    s.y = y_of(i) + in_y;
    if (p_.has_cells()) {
      s.carry_cells = pass_.carry_cells + place;
      s.cells = cells_of(i) + place;
      s.before = !is_first ? cells_of(i - 1) + place : pass_.c0 == nullptr ? nullptr : pass_.c0 + place;
    } else if (!is_first) {
      s.before = y_of(i - 1) + in_y;
    } else if (pass_.h0 != nullptr) {
      s.before = pass_.h0 + place;
    }
    s.to_x = gradients_.of_x + point * p_.rows() + part.unit;
    s.to_h = gradients_.of_h + point * p_.rows() + part.unit;
    step_gates_back(p_.mode, s);
    for (std::int64_t gate = 0; gate < p_.gates(); ++gate)
      steps_.put(row, gate * hidden + part.unit, part.units, s.to_h + gate * hidden);
  }

  const RnnProblem& p_;
  const RnnPass<T>& pass_;
  const GateGradients<T> gradients_;
  PackedSteps<T> steps_;
};

template <class T>
void multiply(const Queue& queue, GemmProblem problem, const T* a, const T* b, T* c, void* row_sums = nullptr) {
  problem.a.data = const_cast<T*>(a);
  problem.b.data = const_cast<T*>(b);
  problem.c.data = c;
  product_cpu(queue, problem, row_sums);
}

// Of the weights of inputs and both biases, each one product over all steps.
template <class T>
void input_gradients(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass, const GateGradients<T>& of) {
  const std::int64_t in = p.input_of(pass.layer), rows = p.rows(), points = p.steps * p.batch;
  const DType dtype = wide_type(p.dtype);
  T* const bias = pass.dparameters + p.input_bias(pass.layer, pass.direction);
  GemmProblem weights{.dtype = dtype, .m = rows, .n = in, .k = points};
  weights.a = {nullptr, 1, rows};
  weights.b = weights.c = {nullptr, in, 1};
  multiply(queue, weights, of.of_x, pass.x, pass.dparameters + p.input_weights(pass.layer, pass.direction), bias);
  T* const state_bias = pass.dparameters + p.state_bias(pass.layer, pass.direction);
  if (of.of_h == of.of_x)
    std::copy_n(bias, rows, state_bias);
  else
    channel_sum_cpu({points, rows, 1, dtype}, of.of_h, state_bias);
  GemmProblem inputs{.dtype = dtype, .m = points, .n = in, .k = rows, .accumulate = pass.adds_to_dx};
  inputs.a = {nullptr, rows, 1};
  inputs.b = inputs.c = {nullptr, in, 1};
  multiply(queue, inputs, of.of_x, pass.parameters + p.input_weights(pass.layer, pass.direction), pass.dx);
}

// The gates of the steps that sequences begin with, going backwards: those of the last ones.
template <class T>
void first_gates(const RnnProblem& p, const RnnPass<T>& pass, const T* of_h, T* to) {
  for (std::int64_t n = 0; n < p.batch; ++n, to += p.rows()) {
    if (const std::int64_t length = pass.length(p, n); length > 0)
      std::copy_n(of_h + ((length - 1) * p.batch + n) * p.rows(), p.rows(), to);
    else
      std::fill_n(to, p.rows(), T{});
  }
}

// Of the weights of states: each step's gates with what the step before it gave, then the first's with h0. Beyond a
// sequence gates and y are 0.
template <class T>
void state_gradients(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass, const T* of_h) {
  const std::int64_t rows = p.rows(), apart = p.batch, forward = pass.direction == 0 ? 1 : 0;
  T* const to = pass.dparameters + p.state_weights(pass.layer, pass.direction);
  GemmProblem product{.dtype = wide_type(p.dtype), .m = rows, .n = p.hidden, .k = (p.steps - 1) * p.batch};
  product.a = {nullptr, 1, rows};
  product.b = {nullptr, p.width(), 1};
  product.c = {nullptr, p.hidden, 1};
  if (p.steps > 1)
    multiply(queue, product, of_h + forward * apart * rows, pass.y + (1 - forward) * apart * p.width(), to);
  else
    std::fill_n(to, rows * p.hidden, T{});
  if (pass.h0 == nullptr)
    return;
  product.k = p.batch;
  product.b.row = p.hidden;
  product.accumulate = true;
  const bool is_uneven = pass.lengths != nullptr && forward == 0;
  const Workspace first(queue, is_uneven ? static_cast<std::size_t>(p.batch * rows) * sizeof(T) : 0);
  if (is_uneven)
    first_gates(p, pass, of_h, first.template as<T>());
  const T* const gates = is_uneven ? first.template as<T>() : of_h + (1 - forward) * (p.steps - 1) * apart * rows;
  multiply(queue, product, gates, pass.h0, to);
}

}  // namespace

template <class T>
void rnn_pass_backward(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass) {
  const std::int64_t numbers = p.steps * p.batch * p.rows();
  const std::size_t bytes = static_cast<std::size_t>(numbers) * sizeof(T);
  const bool differ = p.mode == RnnMode::gru;
  const Workspace of_x(queue, bytes), of_h(queue, differ ? bytes : 0);
  const GateGradients<T> gradients{of_x.template as<T>(), differ ? of_h.template as<T>() : of_x.template as<T>()};
  Backward<T>(queue, p, pass, gradients).run();
  input_gradients(queue, p, pass, gradients);
  state_gradients(queue, p, pass, static_cast<const T*>(gradients.of_h));
}

template void rnn_pass_backward(const Queue&, const RnnProblem&, const RnnPass<float>&);
template void rnn_pass_backward(const Queue&, const RnnProblem&, const RnnPass<double>&);

}  // namespace sluice::detail
