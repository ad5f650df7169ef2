// Recurrent layers as cuDNN computes them, on the simulated GPU: plain loops in float64 that run as a kernel does.
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/operator/floating.h>
#include <sluice/operator/rnn/problem.h>

#include "tests/support/cuda_sim/sim.h"

namespace sluice::detail {
namespace {

using Numbers = std::vector<double>;

Numbers read(const void* from, DType dtype, std::int64_t n) {
  Numbers all(static_cast<std::size_t>(n));
  if (from != nullptr) {
    by_floating(dtype, [&]<class T>() {
      for (std::int64_t i = 0; i < n; ++i)
        all[static_cast<std::size_t>(i)] = static_cast<double>(static_cast<const T*>(from)[i]);
    });
  }
  return all;
}

void write(const Numbers& all, DType dtype, void* to) {
  if (to == nullptr)
    return;
  by_floating(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < all.size(); ++i)
      static_cast<T*>(to)[i] = T(static_cast<Compute<T>>(all[i]));
  });
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// A number and what its gradient adds to: enough of a tape for one step of one unit.
struct Unit {
  double h = 0, c = 0;
  double gates[4] = {}, recalled = 0;
};

/// A network, all steps of which are kept.
class Network {
 public:
  Network(const RnnProblem& p, const RnnData& d)
      : p_(p),
        weights_(read(d.parameters, p.dtype, p.parameters())),
        h0_(read(d.h0, p.dtype, states())),
        c0_(read(d.c0, p.dtype, states())),
        x_{read(d.x, p.dtype, p.steps * p.batch * p.input)} {
    for (std::int64_t layer = 0; layer < p.layers; ++layer) {
      x_.push_back(Numbers(size(p.steps * p.batch * p.width())));
      for (std::int64_t direction = 0; direction < p.directions; ++direction) {
        units_.push_back(std::vector<Unit>(size(p.steps * p.batch * p.hidden)));
        each_step(false, direction, [&](std::int64_t t, std::int64_t before) { forward(layer, direction, t, before); });
      }
    }
  }

  void write_results(const RnnData& d) const {
    write(x_.back(), p_.dtype, d.y);
    Numbers h, c;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const std::int64_t last = static_cast<std::int64_t>(i) % p_.directions == 0 ? p_.steps - 1 : 0;
      for (std::int64_t at = 0; at < p_.batch * p_.hidden; ++at) {
        const Unit& unit = units_[i][size(last * p_.batch * p_.hidden + at)];
        h.push_back(unit.h);
        c.push_back(unit.c);
      }
    }
    write(h, p_.dtype, d.h);
    write(c, p_.dtype, d.c);
  }

  void write_gradients(const RnnData& d) {
    dh_ = read(d.dh, p_.dtype, states());
    dc_ = read(d.dc, p_.dtype, states());
    dweights_.assign(weights_.size(), 0);
    Numbers dy = read(d.dy, p_.dtype, p_.steps * p_.batch * p_.width());
    for (std::int64_t layer = p_.layers - 1; layer >= 0; --layer) {
      Numbers dx(x_[size(layer)].size());
      for (std::int64_t direction = 0; direction < p_.directions; ++direction)
        each_step(true, direction, [&](std::int64_t t, std::int64_t before) {
          for (std::int64_t n = 0; n < p_.batch; ++n)
            backward({layer, direction, t, before, n}, dy, dx);
        });
      dy = dx;
    }
    write(dy, p_.dtype, d.dx);
    write(dweights_, p_.dtype, d.dparameters);
    write(dh_, p_.dtype, d.dh0);
    write(dc_, p_.dtype, d.dc0);
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  std::int64_t states() const { return p_.layers * p_.directions * p_.batch * p_.hidden; }

  // Each step and the one before it, -1: none.
  void each_step(bool back, std::int64_t direction, const std::function<void(std::int64_t, std::int64_t)>& run) const {
    for (std::int64_t i = 0; i < p_.steps; ++i) {
      const std::int64_t step = back ? p_.steps - 1 - i : i, t = direction == 0 ? step : p_.steps - 1 - step;
      run(t, step == 0 ? -1 : direction == 0 ? t - 1 : t + 1);
    }
  }

  struct Place {
    std::int64_t layer, direction, t, before, n;
  };
  std::size_t network(const Place& at) const { return size(at.layer * p_.directions + at.direction); }
  std::size_t state(const Place& at, std::int64_t j) const {
    return (network(at) * size(p_.batch) + size(at.n)) * size(p_.hidden) + size(j);
  }
  Unit& unit(const Place& at, std::int64_t t, std::int64_t j) {
    return units_[network(at)][size((t * p_.batch + at.n) * p_.hidden + j)];
  }
  double h_before(const Place& at, std::int64_t j) {
    return at.before < 0 ? h0_[state(at, j)] : unit(at, at.before, j).h;
  }
  double c_before(const Place& at, std::int64_t j) {
    return at.before < 0 ? c0_[state(at, j)] : unit(at, at.before, j).c;
  }

  double from_x(const Place& at, std::int64_t row) const {
    const std::int64_t in = p_.input_of(at.layer);
    double sum = weights_[size(p_.input_bias(at.layer, at.direction) + row)];
    for (std::int64_t i = 0; i < in; ++i)
      sum += weights_[size(p_.input_weights(at.layer, at.direction) + row * in + i)] *
             x_[size(at.layer)][size((at.t * p_.batch + at.n) * in + i)];
    return sum;
  }
  double from_h(const Place& at, std::int64_t row) {
    double sum = weights_[size(p_.state_bias(at.layer, at.direction) + row)];
    for (std::int64_t i = 0; i < p_.hidden; ++i)
      sum += weights_[size(p_.state_weights(at.layer, at.direction) + row * p_.hidden + i)] * h_before(at, i);
    return sum;
  }

  void forward(std::int64_t layer, std::int64_t direction, std::int64_t t, std::int64_t before) {
    for (std::int64_t n = 0; n < p_.batch; ++n) {
      const Place at{layer, direction, t, before, n};
      for (std::int64_t j = 0; j < p_.hidden; ++j) {
        Unit& u = unit(at, t, j);
        const auto both = [&](std::int64_t gate) {
          return from_x(at, gate * p_.hidden + j) + from_h(at, gate * p_.hidden + j);
        };
        if (p_.mode == RnnMode::lstm) {
          for (std::int64_t gate = 0; gate < 4; ++gate)
            u.gates[gate] = gate == 2 ? std::tanh(both(gate)) : sigmoid(both(gate));
          u.c = u.gates[1] * c_before(at, j) + u.gates[0] * u.gates[2];
          u.h = u.gates[3] * std::tanh(u.c);
        } else if (p_.mode == RnnMode::gru) {
          u.gates[0] = sigmoid(both(0));
          u.gates[1] = sigmoid(both(1));
          u.recalled = from_h(at, 2 * p_.hidden + j);
          u.gates[2] = std::tanh(from_x(at, 2 * p_.hidden + j) + u.gates[0] * u.recalled);
          u.h = (1 - u.gates[1]) * u.gates[2] + u.gates[1] * h_before(at, j);
        } else {
          u.h = p_.mode == RnnMode::rnn_tanh ? std::tanh(both(0)) : both(0) <= 0 ? 0 : both(0);
        }
        x_[size(layer + 1)][size((t * p_.batch + n) * p_.width() + direction * p_.hidden + j)] = u.h;
      }
    }
  }

  // Gradients of the sums of a unit's gates, as x and as h see them; what goes straight on to h and c before.
  struct Slopes {
    double x[4] = {}, h[4] = {}, direct = 0;
  };
  Slopes slopes(const Place& at, std::int64_t j, double dh) {
    const Unit& u = unit(at, at.t, j);
    Slopes s;
    const double *g = u.gates, y = std::tanh(u.c);
    if (p_.mode == RnnMode::lstm) {
      const double dc = dc_[state(at, j)] + dh * g[3] * (1 - y * y);
      s.x[0] = dc * g[2] * g[0] * (1 - g[0]);
      s.x[1] = dc * c_before(at, j) * g[1] * (1 - g[1]);
      s.x[2] = dc * g[0] * (1 - g[2] * g[2]);
      s.x[3] = dh * y * g[3] * (1 - g[3]);
      dc_[state(at, j)] = dc * g[1];
    } else if (p_.mode == RnnMode::gru) {
      s.x[2] = dh * (1 - g[1]) * (1 - g[2] * g[2]);
      s.x[0] = s.x[2] * u.recalled * g[0] * (1 - g[0]);
      s.x[1] = dh * (h_before(at, j) - g[2]) * g[1] * (1 - g[1]);
      s.direct = dh * g[1];
    } else {
      s.x[0] = p_.mode == RnnMode::rnn_tanh ? dh * (1 - u.h * u.h) : u.h <= 0 ? 0 : dh;
    }
    for (int gate = 0; gate < 4; ++gate)
      s.h[gate] = p_.mode == RnnMode::gru && gate == 2 ? s.x[2] * g[0] : s.x[gate];
    return s;
  }

  void backward(const Place& at, const Numbers& dy, Numbers& dx) {
    const std::int64_t in = p_.input_of(at.layer), row_of_x = (at.t * p_.batch + at.n) * in;
    std::vector<Slopes> all;
    for (std::int64_t j = 0; j < p_.hidden; ++j) {
      const double head = dy[size((at.t * p_.batch + at.n) * p_.width() + at.direction * p_.hidden + j)];
      all.push_back(slopes(at, j, head + dh_[state(at, j)]));
    }
    for (std::int64_t j = 0; j < p_.hidden; ++j)
      dh_[state(at, j)] = all[size(j)].direct;
    for (std::int64_t row = 0; row < p_.rows(); ++row) {
      const Slopes& s = all[size(row % p_.hidden)];
      const double of_x = s.x[row / p_.hidden], of_h = s.h[row / p_.hidden];
      dweights_[size(p_.input_bias(at.layer, at.direction) + row)] += of_x;
      dweights_[size(p_.state_bias(at.layer, at.direction) + row)] += of_h;
      for (std::int64_t i = 0; i < in; ++i) {
        const std::size_t place = size(p_.input_weights(at.layer, at.direction) + row * in + i);
        dweights_[place] += of_x * x_[size(at.layer)][size(row_of_x + i)];
        dx[size(row_of_x + i)] += of_x * weights_[place];
      }
      for (std::int64_t i = 0; i < p_.hidden; ++i) {
        const std::size_t place = size(p_.state_weights(at.layer, at.direction) + row * p_.hidden + i);
        dweights_[place] += of_h * h_before(at, i);
        dh_[state(at, i)] += of_h * weights_[place];
      }
    }
  }

  const RnnProblem p_;
  const Numbers weights_, h0_, c0_;
  std::vector<Numbers> x_;  // of each layer, then y
  std::vector<std::vector<Unit>> units_;
  Numbers dh_, dc_, dweights_;
};

}  // namespace

// One size is not taken, so that compositions run here too.
bool rnn_has_library(Device, const RnnProblem& problem) {
  return problem.hidden != 13;
}

bool rnn_asks_persistent(Device, const RnnProblem&) {
  return false;
}
bool rnn_is_persistent(Device, const RnnProblem&) {
  return false;
}

// Of which nobody reads anything: backward runs forward again.
std::int64_t rnn_library_reserve(Device device, const RnnProblem& problem) {
  return rnn_has_library(device, problem) ? 1 : 0;
}

void rnn_by_library(const Queue& queue, const RnnProblem& problem, const RnnData& data, bool is_backward) {
  test::sim::launch(static_cast<cudaStream_t>(queue.stream()), [problem, data, is_backward] {
    Network network(problem, data);
    if (is_backward)
      network.write_gradients(data);
    else
      network.write_results(data);
  });
}

}  // namespace sluice::detail
