// Attention as cuDNN computes it, on the simulated GPU: plain loops in float64 that run as a kernel does.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <cuda_runtime_api.h>

#include <sluice/engine/error.h>
#include <sluice/operator/attention/fused.h>
#include <sluice/operator/floating.h>

#include "tests/support/cuda_sim/sim.h"

namespace sluice::detail {
namespace {

double number(const void* data, DType dtype, std::int64_t place) {
  double value = 0;
  by_floating(dtype, [&]<class T>() { value = static_cast<double>(static_cast<const T*>(data)[place]); });
  return value;
}

/// One query of one head, and the scores of its keys.
template <class T>
class Row {
 public:
  Row(const AttentionProblem& p, const AttentionData& d, std::int64_t image, std::int64_t head, std::int64_t query)
      : p_(p), d_(d), image_(image), head_(head), query_(query), group_(head / (p.q[1] / p.k[1])) {}

  double q(std::int64_t i) const { return at(d_.q, p_.q_strides, head_, query_, i); }
  double k(std::int64_t key, std::int64_t i) const { return at(d_.k, p_.k_strides, group_, key, i); }
  double v(std::int64_t key, std::int64_t i) const { return at(d_.v, p_.v_strides, group_, key, i); }
  double y(std::int64_t i) const { return at(d_.y, p_.y_strides, head_, query_, i); }
  double gradient(std::int64_t i) const { return at(d_.head, p_.head_strides, head_, query_, i); }
  std::int64_t row() const { return (image_ * p_.q[1] + head_) * p_.q[2] + query_; }
  std::int64_t y_place(std::int64_t i) const { return place(p_.y_strides, head_, query_, i); }
  std::int64_t dq_place(std::int64_t i) const { return place(p_.dq_strides, head_, query_, i); }
  std::int64_t dk_place(std::int64_t key, std::int64_t i) const { return place(p_.dk_strides, group_, key, i); }
  std::int64_t dv_place(std::int64_t key, std::int64_t i) const { return place(p_.dv_strides, group_, key, i); }

  double score(std::int64_t key) const {
    if (p_.causal && key > query_)
      return -std::numeric_limits<double>::infinity();
    double sum = 0;
    for (std::int64_t i = 0; i < p_.q[3]; ++i)
      sum += q(i) * k(key, i);
    sum *= static_cast<double>(d_.scale);
    if (!p_.mask_dtype)
      return sum;
    std::int64_t place = 0;
    const std::int64_t index[] = {image_, head_, query_, key};
    for (int axis = 0; axis < 4; ++axis)
      place += p_.mask[axis] == 1 ? 0 : index[axis] * p_.mask_strides[axis];
    return sum + number(d_.mask, *p_.mask_dtype, place);
  }

 private:
  std::int64_t place(const Shape& strides, std::int64_t head, std::int64_t row, std::int64_t i) const {
    return image_ * strides[0] + head * strides[1] + row * strides[2] + i * strides[3];
  }
  double at(const void* data, const Shape& strides, std::int64_t head, std::int64_t row, std::int64_t i) const {
    return static_cast<double>(static_cast<const T*>(data)[place(strides, head, row, i)]);
  }

  const AttentionProblem& p_;
  const AttentionData& d_;
  const std::int64_t image_, head_, query_, group_;
};

template <class T>
T narrow(double value) {
  return T(static_cast<Compute<T>>(value));
}

template <class T, class Body>
void for_each_row(const AttentionProblem& p, const AttentionData& d, const Body& body) {
  for (std::int64_t image = 0; image < p.q[0]; ++image)
    for (std::int64_t head = 0; head < p.q[1]; ++head)
      for (std::int64_t query = 0; query < p.q[2]; ++query)
        body(Row<T>(p, d, image, head, query));
}

template <class T>
void forward(const AttentionProblem& p, const AttentionData& d) {
  for_each_row<T>(p, d, [&](const Row<T>& row) {
    std::vector<double> weights;
    double most = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t key = 0; key < p.k[2]; ++key) {
      weights.push_back(row.score(key));
      most = weights.back() > most || std::isnan(weights.back()) ? weights.back() : most;
    }
    for (double& weight : weights)
      total += weight = most == -std::numeric_limits<double>::infinity() ? 0 : std::exp(weight - most);
    static_cast<float*>(d.statistics)[row.row()] = static_cast<float>(most + std::log(total));
    for (std::int64_t i = 0; i < p.v[3]; ++i) {
      double sum = 0;
      for (std::int64_t key = 0; key < p.k[2] && total != 0; ++key)
        sum += weights[static_cast<std::size_t>(key)] / total * row.v(key, i);
      static_cast<T*>(d.y)[row.y_place(i)] = narrow<T>(sum);
    }
  });
}

template <class T>
void backward(const AttentionProblem& p, const AttentionData& d) {
  // By places, of which other arrays may have some.
  const auto zeros = [](const Shape& shape, const Shape& strides) {
    std::int64_t last = 0;
    for (int axis = 0; axis < 4; ++axis)
      last += (shape[axis] - 1) * strides[axis];
    return std::vector<double>(static_cast<std::size_t>(last + 1));
  };
  std::vector<double> dq = zeros(p.q, p.dq_strides), dk = zeros(p.k, p.dk_strides), dv = zeros(p.v, p.dv_strides);
  const auto add = [](std::vector<double>& to, std::int64_t place, double term) {
    to[static_cast<std::size_t>(place)] += term;
  };
  for_each_row<T>(p, d, [&](const Row<T>& row) {
    double shared = 0;
    for (std::int64_t i = 0; i < p.v[3]; ++i)
      shared += row.y(i) * row.gradient(i);
    const double statistic = static_cast<double>(static_cast<const float*>(d.statistics)[row.row()]);
    for (std::int64_t key = 0; key < p.k[2]; ++key) {
      const double score = row.score(key);
      const double weight = score == -std::numeric_limits<double>::infinity() ? 0 : std::exp(score - statistic);
      double of_weight = -shared;
      for (std::int64_t i = 0; i < p.v[3]; ++i) {
        of_weight += row.gradient(i) * row.v(key, i);
        add(dv, row.dv_place(key, i), weight * row.gradient(i));
      }
      const double of_score = weight * of_weight * static_cast<double>(d.scale);
      for (std::int64_t i = 0; i < p.q[3]; ++i) {
        add(dq, row.dq_place(i), of_score * row.k(key, i));
        add(dk, row.dk_place(key, i), of_score * row.q(i));
      }
    }
  });
  const auto write = [](void* to, const std::vector<double>& sums, const Shape& shape, const Shape& strides) {
    for (std::int64_t i = 0; i < shape.size(); ++i) {
      std::int64_t place = 0, rest = i;
      for (int axis = 3; axis >= 0; rest /= shape[axis--])
        place += rest % shape[axis] * strides[axis];
      static_cast<T*>(to)[place] = narrow<T>(sums[static_cast<std::size_t>(place)]);
    }
  };
  write(d.dq, dq, p.q, p.dq_strides);
  write(d.dk, dk, p.k, p.dk_strides);
  write(d.dv, dv, p.v, p.dv_strides);
}

// What a plan is made for, and what its loads and stores would fault without.
void check_alignment(const AttentionProblem& p, const AttentionData& d) {
  const auto begins = [](const void* data, std::int64_t bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
  };
  bool all = begins(d.statistics, p.statistics_alignment) && begins(d.mask, p.mask_alignment);
  for (const void* const data : {d.q, d.k, d.v, d.y, d.head, d.dq, d.dk, d.dv})
    all = all && begins(data, 16);
  require<UnsupportedError>(
      all, [] { return message("attention: an array begins off what cuDNN's plan is made for"); });
}

}  // namespace

bool attention_has_kernel(Engine&, Device, const AttentionProblem&) {
  return true;
}

void attention_by_plan(const Queue& queue, const AttentionProblem& problem, const AttentionData& data) {
  const bool is_backward = problem.pass == AttentionPass::backward;
  const bool is_whole = problem.mask.empty() || (problem.mask[2] == problem.q[2] && problem.mask[3] == problem.k[2]);
  require<UnsupportedError>(
      !is_backward || is_whole, [] { return message("attention_fused_backward: cuDNN's is wrong with such masks"); });
  check_alignment(problem, data);
  test::sim::launch(static_cast<cudaStream_t>(queue.stream()), [problem, data] {
    by_floating(problem.dtype, [&]<class T>() {
      if (problem.pass == AttentionPass::forward)
        forward<T>(problem, data);
      else
        backward<T>(problem, data);
    });
  });
}

}  // namespace sluice::detail
