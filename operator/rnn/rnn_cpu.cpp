#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <type_traits>
#include <vector>

#include <sluice/operator/floating.h>
#include <sluice/operator/library/widened.h>
#include <sluice/operator/rnn/layers_cpu.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

std::size_t bytes_of(std::int64_t numbers, std::size_t each) {
  return static_cast<std::size_t>(numbers) * each;
}

// One of a network's states.
template <class P>
P* state_of(P* all, const RnnProblem& p, std::int64_t layer, std::int64_t direction) {
  return all == nullptr ? nullptr : all + (layer * p.directions + direction) * p.batch * p.hidden;
}

/// The arrays of a call, in the type that is added up.
template <class T>
struct Typed {
  const RnnProblem& p;
  const RnnData& d;

  const T* x() const { return static_cast<const T*>(d.x); }
  T* y() const { return static_cast<T*>(d.y); }
  T* kept() const { return static_cast<T*>(d.kept); }

  RnnPass<T> pass(std::int64_t layer, std::int64_t direction) const {
    RnnPass<T> made{.layer = layer, .direction = direction, .parameters = static_cast<const T*>(d.parameters)};
    made.h0 = state_of(static_cast<const T*>(d.h0), p, layer, direction);
    made.c0 = state_of(static_cast<const T*>(d.c0), p, layer, direction);
    made.lengths = d.lengths;
    return made;
  }
};

// The states behind each sample's last step, of which cells are in one of two places where they are not kept. Without
// a step these are those that there were.
template <class T>
void end_states(const RnnProblem& p, const RnnPass<T>& pass, bool keeps, T* h, T* c) {
  const auto copy = [&](const T* from, T* to) {
    if (from == nullptr)
      std::fill_n(to, p.hidden, T{});
    else
      std::copy_n(from, p.hidden, to);
  };
  const auto row_of = [&](const T* states, std::int64_t n) {
    return states == nullptr ? nullptr : states + n * p.hidden;
  };
  for (std::int64_t n = 0; n < p.batch; ++n) {
    const std::int64_t length = pass.length(p, n), last = pass.direction == 0 ? length - 1 : 0;
    copy(length == 0 ? row_of(pass.h0, n) : pass.y + (last * p.batch + n) * p.width(), h + n * p.hidden);
    if (!p.has_cells())
      continue;
    const std::int64_t place = keeps ? last : (pass.direction == 0 ? last : p.steps - 1) % 2;
    copy(length == 0 ? row_of(pass.c0, n) : pass.cells + (place * p.batch + n) * p.hidden, c + n * p.hidden);
  }
}

template <class T>
void forward(const Queue& queue, const RnnProblem& p, const RnnData& d) {
  const Typed<T> of{p, d};
  const bool keeps = d.kept != nullptr, is_deep = p.layers > 1;
  const std::int64_t points = p.steps * p.batch, hidden = p.hidden;
  const RnnKept<T> kept{p, of.kept()};
  // Where nothing is kept, what layers give lies in two places by turns, cells of two steps in one.
  const Workspace between(queue, keeps || !is_deep ? 0 : bytes_of(2 * points * p.width(), sizeof(T)));
  const Workspace cells(queue, keeps || !p.has_cells() ? 0 : bytes_of(2 * p.batch * hidden, sizeof(T)));
  const T* x = of.x();
  for (std::int64_t layer = 0; layer < p.layers; ++layer) {
    T* y = layer + 1 == p.layers ? of.y()
           : keeps               ? kept.y(layer)
                                 : between.template as<T>() + layer % 2 * points * p.width();
    for (std::int64_t direction = 0; direction < p.directions; ++direction) {
      RnnPass<T> pass = of.pass(layer, direction);
      pass.x = x;
      pass.y = y + direction * hidden;
      pass.cells = cells.template as<T>();
      if (keeps && p.kept_gates() > 0)
        pass.gates = kept.gates(layer, direction);
      if (keeps && p.has_cells())
        pass.cells = kept.cells(layer, direction);
      rnn_pass_forward(queue, p, pass, keeps);
      T *const h = state_of(static_cast<T*>(d.h), p, layer, direction), *const c = state_of(
                                                                            static_cast<T*>(d.c), p, layer, direction);
      end_states(p, pass, keeps, h, c);
    }
    x = y;
  }
}

template <class T>
void backward(const Queue& queue, const RnnProblem& p, const RnnData& d) {
  const Typed<T> of{p, d};
  const std::int64_t points = p.steps * p.batch, states = p.layers * p.directions * p.batch * p.hidden;
  const RnnKept<T> kept{p, of.kept()};
  std::copy_n(static_cast<const T*>(d.dh), states, static_cast<T*>(d.dh0));
  if (p.has_cells())
    std::copy_n(static_cast<const T*>(d.dc), states, static_cast<T*>(d.dc0));
  const Workspace between(queue, p.layers == 1 ? 0 : bytes_of(2 * points * p.width(), sizeof(T)));
  // Weights take x times gradients that are 0 beyond a sequence, where x may be anything.
  const Workspace within(queue, d.lengths == nullptr ? 0 : bytes_of(points * p.input, sizeof(T)));
  const T* x = of.x();
  if (d.lengths != nullptr) {
    T* const clean = within.template as<T>();
    std::copy_n(x, points * p.input, clean);
    clear_padding(p, d.lengths, clean, p.input);
    x = clean;
  }
  const T* dy = static_cast<const T*>(d.dy);
  for (std::int64_t layer = p.layers - 1; layer >= 0; --layer) {
    T* const dx = layer == 0 ? static_cast<T*>(d.dx) : between.template as<T>() + layer % 2 * points * p.width();
    for (std::int64_t direction = 0; direction < p.directions; ++direction) {
      RnnPass<T> pass = of.pass(layer, direction);
      pass.x = layer == 0 ? x : kept.y(layer - 1);
      pass.y = (layer + 1 == p.layers ? of.y() : kept.y(layer)) + direction * p.hidden;
      pass.gates = kept.gates(layer, direction);
      pass.cells = kept.cells(layer, direction);
      pass.dy = dy + direction * p.hidden;
      pass.carry = state_of(static_cast<T*>(d.dh0), p, layer, direction);
      pass.carry_cells = state_of(static_cast<T*>(d.dc0), p, layer, direction);
      pass.dx = dx;
      pass.dparameters = static_cast<T*>(d.dparameters);
      pass.adds_to_dx = direction == 1;
      rnn_pass_backward(queue, p, pass);
    }
    dy = dx;
  }
  clear_padding(p, d.lengths, static_cast<T*>(d.dx), p.input);  // not 0 times weights that may be infinite
}

/// Arrays of a half type as floats: what is read becomes them, what is written is read off when the call is over.
class InFloats {
 public:
  InFloats(const Queue& queue, DType half) : queue_(queue), half_(half) {}
  InFloats(const InFloats&) = delete;

  const void* in(const void* from, std::int64_t n) { return from == nullptr ? nullptr : room(from, n); }
  void* out(void* to, std::int64_t n) {
    if (to == nullptr)
      return nullptr;
    results_.push_back({to, room(nullptr, n), n});
    return results_.back().from;
  }
  void finish() const {
    for (const Result& result : results_)
      narrow(result.from, half_, result.to, result.n);
  }

 private:
  struct Result {
    void* to;
    float* from;
    std::int64_t n;
  };
  float* room(const void* from, std::int64_t n) { return rooms_.emplace_back(queue_, half_, from, n).data(); }

  const Queue& queue_;
  const DType half_;
  std::deque<Widened> rooms_;
  std::vector<Result> results_;
};

void widened(const Queue& queue, const RnnProblem& p, RnnData d, bool is_backward) {
  const std::int64_t x = p.steps * p.batch * p.input, y = p.steps * p.batch * p.width(), all = p.parameters();
  const std::int64_t states = p.layers * p.directions * p.batch * p.hidden;
  InFloats wide(queue, p.dtype);
  d.x = wide.in(d.x, x);
  d.parameters = wide.in(d.parameters, all);
  d.h0 = wide.in(d.h0, states);
  d.c0 = wide.in(d.c0, states);
  if (is_backward) {
    d.y = const_cast<void*>(wide.in(d.y, y));
    d.dy = wide.in(d.dy, y);
    d.dh = wide.in(d.dh, states);
    d.dc = wide.in(d.dc, states);
    d.dx = wide.out(d.dx, x);
    d.dparameters = wide.out(d.dparameters, all);
    d.dh0 = wide.out(d.dh0, states);
    d.dc0 = wide.out(d.dc0, states);
    backward<float>(queue, p, d);
  } else {
    d.y = wide.out(d.y, y);
    d.h = wide.out(d.h, states);
    d.c = wide.out(d.c, states);
    forward<float>(queue, p, d);
  }
  wide.finish();
}

void clear(std::span<const TensorView> outputs) {
  for (const TensorView& output : outputs) {
    if (output.size > 0)  // of nothing there may be no address
      std::memset(output.data, 0, bytes_of(output.size, size_of(output.dtype)));
  }
}

}  // namespace

void rnn_on_host(const Queue& queue, const RnnProblem& p, const RnnData& d, bool is_backward) {
  by_floating(p.dtype, [&]<class T>() {
    if constexpr (!std::is_floating_point_v<T>)
      widened(queue, p, d, is_backward);
    else if (is_backward)
      backward<T>(queue, p, d);
    else
      forward<T>(queue, p, d);
  });
}

void rnn_cpu(const KernelCall& call) {
  const RnnProblem p = rnn_problem(call.inputs[0], call.attributes.as<RnnAttributes>());
  if (p.batch == 0)
    return;
  const std::vector<std::int64_t> lengths = rnn_lengths(call, p);
  RnnData data = rnn_forward_data(call, p);
  data.lengths = lengths.empty() ? nullptr : lengths.data();
  rnn_on_host(call.queue, p, data, false);
}

void rnn_backward_cpu(const KernelCall& call) {
  const RnnProblem p = rnn_problem(call.inputs[0], call.attributes.as<RnnAttributes>());
  if (p.batch == 0)
    return clear(call.outputs);
  const std::vector<std::int64_t> lengths = rnn_lengths(call, p);
  RnnData data = rnn_backward_data(call, p);
  data.lengths = lengths.empty() ? nullptr : lengths.data();
  rnn_on_host(call.queue, p, data, true);
}

}  // namespace sluice::detail
