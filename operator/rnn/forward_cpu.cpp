#include <sluice/operator/half_types.h>
#include <sluice/operator/matmul/product.h>
#include <sluice/operator/rnn/gates_cpu.h>
#include <sluice/operator/rnn/layers_cpu.h>
#include <sluice/operator/rnn/packed_steps.h>

namespace sluice::detail {
namespace {

// What all steps take of their inputs, with the bias.
template <class T>
void multiply_inputs(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass, T* product) {
  const std::int64_t in = p.input_of(pass.layer);
  const auto at = [&](std::int64_t offset) { return const_cast<T*>(pass.parameters + offset); };
  GemmProblem gemm{.dtype = wide_type(p.dtype), .m = p.steps * p.batch, .n = p.rows(), .k = in};
  gemm.a = {const_cast<T*>(pass.x), in, 1};
  gemm.b = {at(p.input_weights(pass.layer, pass.direction)), 1, in};
  gemm.c = {product, p.rows(), 1};
  gemm.column_bias = at(p.input_bias(pass.layer, pass.direction));
  product_cpu(queue, gemm);
}

template <class T>
class Forward {
 public:
  Forward(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass, const T* product, bool keeps)
      : p_(p), pass_(pass), product_(product), keeps_(keeps), steps_(queue, p.batch, p.hidden, p.gates(), p.hidden) {
    const T* const weights = pass.parameters + p.state_weights(pass.layer, pass.direction);
    steps_.pack_weights(
        1, [&](std::int64_t gate, std::int64_t unit) { return weights + (gate * p.hidden + unit) * p.hidden; });
    for (std::int64_t n = 0; pass.h0 != nullptr && n < p.batch; ++n)
      steps_.put(n, 0, p.hidden, pass.h0 + n * p.hidden);
    steps_.advance();
  }

  void run() {
    const T* const biases = pass_.parameters + p_.state_bias(pass_.layer, pass_.direction);
    const auto bias = [&](std::int64_t gate, std::int64_t unit) { return biases + gate * p_.hidden + unit; };
    for (std::int64_t i = 0; i < p_.steps; ++i) {
      steps_.step(i > 0 || pass_.h0 != nullptr, bias, [&](const Part& part) {
        for (std::int64_t n = 0; n < part.rows; ++n)
          run_row(i, part, n);
      });
      steps_.advance();
    }
  }

 private:
  using Part = typename PackedSteps<T>::Part;

  std::int64_t step_of(std::int64_t i) const noexcept { return pass_.direction == 0 ? i : p_.steps - 1 - i; }
  T* cells_of(std::int64_t i) const noexcept {
    return pass_.cells + (keeps_ ? step_of(i) : i % 2) * p_.batch * p_.hidden;
  }
  T* y_of(std::int64_t i) const noexcept { return pass_.y + step_of(i) * p_.batch * p_.width(); }

  void run_row(std::int64_t i, const Part& part, std::int64_t n) {
    const std::int64_t hidden = p_.hidden, row = part.row + n, step = step_of(i), point = step * p_.batch + row;
    const std::int64_t length = pass_.length(p_, row);
    if (step >= length)
      return stay(i, part, row);
    const bool is_first = pass_.begins_with(step, length);
    const std::int64_t place = row * hidden + part.unit, kept_step = hidden;
    simd::GateStep<T> s{.n = part.units, .x_step = hidden, .h_step = Part::gate_step(), .kept_step = kept_step};
    s.from_x = product_ + point * p_.rows() + part.unit;
    s.from_h = part.product + n * part.stride;
    if (pass_.gates != nullptr)
      s.kept = pass_.gates + point * p_.kept_gates() * hidden + part.unit;
    s.y = y_of(i) + row * p_.width() + part.unit;
    if (p_.has_cells()) {
      s.cells = cells_of(i) + place;
      s.before = !is_first ? cells_of(i - 1) + place : pass_.c0 == nullptr ? nullptr : pass_.c0 + place;
    } else if (!is_first) {
      s.before = y_of(i - 1) + row * p_.width() + part.unit;
    } else if (pass_.h0 != nullptr) {
      s.before = pass_.h0 + place;
    }
    step_gates(p_.mode, s);
    steps_.put(row, part.unit, part.units, s.y);
  }

  // Beyond a sequence: y is 0, and going backwards the state waits. What is kept is 0 too, so that it is the same
  // whatever stands in x there; cells of two steps hold the last one.
  void stay(std::int64_t i, const Part& part, std::int64_t row) {
    const std::int64_t hidden = p_.hidden, point = step_of(i) * p_.batch + row;
    std::fill_n(y_of(i) + row * p_.width() + part.unit, part.units, T{});
    for (std::int64_t gate = 0; pass_.gates != nullptr && gate < p_.kept_gates(); ++gate)
      std::fill_n(pass_.gates + (point * p_.kept_gates() + gate) * hidden + part.unit, part.units, T{});
    if (p_.has_cells() && keeps_)
      std::fill_n(cells_of(i) + row * hidden + part.unit, part.units, T{});
    if (pass_.direction == 1 && pass_.h0 != nullptr)
      steps_.put(row, part.unit, part.units, pass_.h0 + row * hidden + part.unit);
  }

  const RnnProblem& p_;
  const RnnPass<T>& pass_;
  const T* product_;
  const bool keeps_;
  PackedSteps<T> steps_;
};

}  // namespace

template <class T>
void rnn_pass_forward(const Queue& queue, const RnnProblem& p, const RnnPass<T>& pass, bool keeps) {
  // An LSTM's gates take the place of their sums.
  const bool is_in_place = p.has_cells() && pass.gates != nullptr;
  const std::int64_t numbers = is_in_place ? 0 : p.steps * p.batch * p.rows();
  const Workspace sums(queue, static_cast<std::size_t>(numbers) * sizeof(T));
  T* const product = is_in_place ? pass.gates : sums.template as<T>();
  multiply_inputs(queue, p, pass, product);
  Forward<T>(queue, p, pass, product, keeps).run();
}

template void rnn_pass_forward(const Queue&, const RnnProblem&, const RnnPass<float>&, bool);
template void rnn_pass_forward(const Queue&, const RnnProblem&, const RnnPass<double>&, bool);

}  // namespace sluice::detail
