// The time of one call of families of operators that bench_kernels has not: decompositions, windows, selections, draws,
// boxes. Where a gradient is of use, of the call and its gradient together, recorded anew each time. In half types too,
// but what has none of these: decompositions.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

using Call = std::function<NDArray(const NDArray&)>;

class Families {
 public:
  Families(bench::Report& report, DType dtype)
      : report_(report), dtype_(dtype), device_(report.options().device), small_(report.options().smoke) {}

  void run() {
    windows();
    volumes();
    pools();
    images();
    boxes();
    sequences();
    chosen();
    counted();
    if (dtype_ == float32) {
      linear();
      batches_of_matrices();
    }
    products();
    draws();
    activations();
    optimizers();
  }

 private:
  // Of a GPU sixteen times as many.
  std::int64_t many(std::int64_t count) const { return small_ ? 2 : device_.is_gpu() ? 16 * count : count; }
  std::int64_t wide(std::int64_t extent) const { return small_ ? 8 : extent; }
  ArrayOptions typed(DType dtype) const { return {.dtype = dtype, .device = device_}; }
  NDArray drawn(const Shape& shape, double low = -1, double high = 1) const {
    random::seed(3);
    return random::uniform(low, high, shape, {.device = device_}).astype(dtype_);
  }
  NDArray whole(std::int64_t below, const Shape& shape) const {
    random::seed(3);
    return random::randint(0, below, shape, typed(int64));
  }

  // n on the diagonal of n rows.
  NDArray diagonal_of(std::int64_t n) const {
    const NDArray numbers = arange(0, n, 1, typed(int64));
    return one_hot(numbers, n) * static_cast<double>(n);
  }

  void time(const std::string& workload, const std::string& variant, const std::function<NDArray()>& call) {
    if (!report_.wants(workload, variant))
      return;
    NDArray y;
    const bench::Timing timing = report_.time(
        device_.is_gpu() ? 20 : 3,
        2,
        [&] {
          y = NDArray();  // as who calls and takes nothing lets go of a result first
          y = call();
        },
        [] { Engine::current().wait_all(); });
    report_.add(workload, variant, "call", timing.median * 1e6, "us", timing.min * 1e6);
    if (!device_.is_gpu())
      report_.add(workload, variant, "processor", timing.processor * 1e6, "us");
    report_.expect(std::isfinite(sum(y.astype(float32)).item<double>()), workload);
  }
  void forward(const std::string& workload, const NDArray& x, const Call& f) {
    time(workload, "forward", [&] { return f(x); });
  }
  /// With the gradients of x and of `others`.
  void both(const std::string& workload, const NDArray& x, const Call& f, std::vector<NDArray> others = {}) {
    forward(workload, x, f);
    if (!report_.wants(workload, "gradient"))
      return;
    NDArray variable = x.copy();
    variable.attach_grad();
    for (NDArray& other : others)
      other.attach_grad();
    const NDArray head = ones_like(f(x));
    time(workload, "gradient", [&] {
      NDArray y;
      {
        const autograd::RecordScope record;
        y = f(variable);
      }
      y.backward(head);
      return variable.grad();
    });
  }

  void windows() {
    const NDArray line = drawn({many(8), wide(64), wide(1024)}), of_line = drawn({wide(64), wide(64), 3});
    both("conv1d", line, [&](const NDArray& x) { return convolution1d(x, of_line, {}, {.pad = {1}}); }, {of_line});
    const NDArray x = drawn({many(8), wide(64), wide(28), wide(28)});
    const NDArray turned = drawn({wide(64), wide(32), 4, 4}), each = drawn({wide(64), 1, 3, 3});
    const NDArray grouped = drawn({wide(64), wide(64) / 8, 3, 3}), apart = drawn({wide(64), wide(64), 3, 3});
    both(
        "deconvolution",
        x,
        [&](const NDArray& v) {
          return deconvolution(v, turned, {}, {.stride = {2, 2}, .pad = {1, 1}});
        },
        {turned});
    both(
        "conv-depthwise",
        x,
        [&](const NDArray& v) {
          return convolution(v, each, {}, {.pad = {1, 1}, .groups = wide(64)});
        },
        {each});
    both(
        "conv-grouped",
        x,
        [&](const NDArray& v) {
          return convolution(v, grouped, {}, {.pad = {1, 1}, .groups = 8});
        },
        {grouped});
    both(
        "conv-dilated",
        x,
        [&](const NDArray& v) {
          return convolution(v, apart, {}, {.pad = {2, 2}, .dilation = {2, 2}});
        },
        {apart});
    both("im2col", x, [](const NDArray& v) { return im2col(v, {.kernel = {3, 3}, .pad = {1, 1}}); });
    both("local-response-norm", x, [](const NDArray& v) { return local_response_norm(v, 5); });
  }

  void volumes() {
    const NDArray x = drawn({many(2), wide(16), wide(16), wide(32), wide(32)});
    const NDArray weight = drawn({wide(16), wide(16), 3, 3, 3}), turned = drawn({wide(16), wide(16), 2, 2, 2});
    both("conv3d", x, [&](const NDArray& v) { return convolution3d(v, weight, {}, {.pad = {1, 1, 1}}); }, {weight});
    both(
        "deconvolution3d",
        x,
        [&](const NDArray& v) {
          return deconvolution3d(v, turned, {}, {.stride = {2, 2, 2}});
        },
        {turned});
    both("max-pool3d", x, [](const NDArray& v) { return max_pool3d(v); });
    both("average-pool3d", x, [](const NDArray& v) { return avg_pool3d(v); });
  }

  void pools() {
    const NDArray x = drawn({many(8), wide(64), wide(56), wide(56)}), line = x.reshape({many(8), wide(64), -1});
    both("adaptive-average-pool", x, [](const NDArray& v) { return adaptive_avg_pool2d(v, {7, 7}); });
    both("adaptive-max-pool", x, [](const NDArray& v) { return adaptive_max_pool2d(v, {7, 7}); });
    both("global-average-pool", x, [](const NDArray& v) { return avg_pool2d(v, {.global = true}); });
    both("lp-pool", drawn(x.shape(), 0.5, 1), [](const NDArray& v) { return lp_pool2d(v, 2); });
    both("max-pool1d", line, [](const NDArray& v) { return max_pool1d(v); });
  }

  void images() {
    const NDArray x = drawn({many(8), wide(32), wide(56), wide(56)});
    const Shape larger{2 * wide(56), 2 * wide(56)}, smaller{wide(56) / 2 + 1, wide(56) / 2 + 1};
    both("resize-nearest", x, [&](const NDArray& v) { return resize2d(v, larger); });
    both("resize-bilinear", x, [&](const NDArray& v) { return resize2d(v, larger, {.mode = ResizeMode::bilinear}); });
    both("resize-bicubic", x, [&](const NDArray& v) { return resize2d(v, larger, {.mode = ResizeMode::bicubic}); });
    both("resize-antialias", x, [&](const NDArray& v) {
      return resize2d(v, smaller, {.mode = ResizeMode::bilinear, .antialias = true});
    });
    const NDArray grid = drawn({many(8), wide(56), wide(56), 2});
    both("grid-sample", x, [&](const NDArray& v) { return grid_sample(v, grid); }, {grid});
    const NDArray offset = drawn({many(8), 18, wide(56), wide(56)}), weight = drawn({wide(32), wide(32), 3, 3});
    both(
        "deformable-convolution",
        x,
        [&](const NDArray& v) {
          return deformable_convolution(v, offset, weight, {}, {}, {.pad = {1, 1}});
        },
        {offset, weight});
  }

  void boxes() {
    const std::int64_t count = wide(2000);
    const NDArray corner = drawn({count, 2}, 0, 90), boxes = concat({corner, corner + drawn({count, 2}, 5, 10)}, 1);
    forward("box-iou", boxes, [](const NDArray& v) { return box_iou(v, v); });
    const NDArray scores = drawn({count}, 0, 1);
    forward("nms", boxes, [&](const NDArray& v) { return nms(v, scores); });
    const NDArray x = drawn({2, wide(64), wide(56), wide(56)}),
                  rois = concat({zeros({count, 1}, typed(dtype_)), boxes}, 1);
    const NDArray some = rois.slice(0, 0, wide(256));
    both("roi-align", x, [&](const NDArray& v) {
      return roi_align(v, some, {.spatial_scale = 0.5, .sampling_ratio = 2});
    });
  }

  void sequences() {
    const NDArray x = drawn({wide(128), many(16), wide(64)}), labels = whole(wide(64) - 1, {many(16), 4}) + 1;
    both("ctc", x, [&](const NDArray& v) { return ctc_loss(v, labels); });
    const NDArray table = drawn({wide(32768), wide(256)}), words = whole(wide(32768), {many(8192)});
    both("embedding", table, [&](const NDArray& v) { return embedding(words, v); });
    const NDArray q = drawn({many(2), 8, wide(256), wide(64)}), k = drawn(q.shape()), v = drawn(q.shape());
    both("attention", q, [&](const NDArray& at) { return scaled_dot_product_attention(at, k, v); }, {k, v});
    const NDArray steps = drawn({many(64), wide(1024)}), kept = drawn(steps.shape(), 0.5, 1);
    forward("linear-recurrence", steps, [&](const NDArray& at) { return linear_recurrence(kept, at, 1); });
  }

  void chosen() {
    const std::int64_t n = small_ ? 64 : many(1 << 20);
    const NDArray x = drawn({n}), mask = x > 0, few = whole(1000, {n}), at = whole(n, {n / 2}), values = drawn({n / 2});
    forward("nonzero", mask, [](const NDArray& v) { return nonzero(v); });
    forward("boolean-mask", x, [&](const NDArray& v) { return boolean_mask(v, mask); });
    forward("unique-few", few, [](const NDArray& v) { return unique(v); });
    forward("unique-many", x, [](const NDArray& v) { return unique(v); });
    forward("masked-fill", x, [&](const NDArray& v) { return masked_fill(v, mask, 2); });
    forward("index-add", x, [&](const NDArray& v) { return index_add(v, {at}, values); });
    forward("put", x, [&](const NDArray& v) { return put(v, at, values); });
    const NDArray labels = whole(100, {n / 64});
    forward("one-hot", labels, [](const NDArray& v) { return one_hot(v, 100); });
    const NDArray rows = x.reshape({n / 64, 64}), places = whole(n / 64, {1, n / 64});
    both("gather-nd", rows, [&](const NDArray& v) { return gather_nd(v, places); });
    forward("scatter-nd", rows, [&](const NDArray& v) { return scatter_nd(v, places, {n / 64, 64}); });
  }

  void counted() {
    const std::int64_t n = small_ ? 64 : many(1 << 20);
    const NDArray x = drawn({n}), few = whole(256, {n}), rows = x.reshape({-1, small_ ? 8 : 1024});
    forward("bincount", few, [](const NDArray& v) { return bincount(v, 256); });
    forward("histogram", x, [](const NDArray& v) { return histogram(v, 100, -1, 1).counts; });
    forward("median-rows", rows, [](const NDArray& v) { return median(v, 1); });
    forward("quantile-all", x, [](const NDArray& v) { return quantile(v, 0.3); });
    both("variance-rows", rows, [](const NDArray& v) { return variance(v, {1}); });
    both("variance-columns", rows, [](const NDArray& v) { return variance(v, {0}); });
    both("norm-rows", rows, [](const NDArray& v) { return norm(v, 2, {1}); });
    both("logsumexp-rows", rows, [](const NDArray& v) { return logsumexp(v, {1}); });
    both("logsumexp-columns", rows, [](const NDArray& v) { return logsumexp(v, {0}); });
    both("prod-rows", rows, [](const NDArray& v) { return prod(v, {1}); });
    forward("any-rows", rows > 2, [](const NDArray& v) { return any(v, {1}); });
    forward("count-nonzero", rows, [](const NDArray& v) { return count_nonzero(v, {1}); });
    forward("nansum-rows", rows, [](const NDArray& v) { return nansum(v, {1}); });
  }

  void linear() {
    const std::int64_t n = wide(512);
    const NDArray x = drawn({n, n}), positive = matmul(x, x.T()) + diagonal_of(n);
    const NDArray half = x.slice(0, 0, n / 2).slice(1, 0, n / 2).copy();
    both("cholesky", positive, [](const NDArray& v) { return cholesky(v); });
    both("inverse", positive, [](const NDArray& v) { return inverse(v); });
    both("solve", positive, [&](const NDArray& v) { return solve(v, x); });
    both("triangular-solve", positive, [&](const NDArray& v) { return triangular_solve(v, x); });
    both("determinant", half, [](const NDArray& v) { return slogdet(v).logabsdet; });
    both("qr", x, [](const NDArray& v) { return qr(v).r; });
    forward("svd", half, [](const NDArray& v) { return svd(v).s; });
    forward("eigh", positive, [](const NDArray& v) { return eigh(v).vectors; });
  }

  void batches_of_matrices() {
    const std::int64_t n = wide(16), count = many(512);
    const NDArray x = drawn({count, n, n}), one = diagonal_of(n);
    const NDArray positive = matmul(x, x.transpose({0, 2, 1})) + one;
    both("cholesky-batch", positive, [](const NDArray& v) { return cholesky(v); });
    both("inverse-batch", positive, [](const NDArray& v) { return inverse(v); });
    both("solve-batch", positive, [&](const NDArray& v) { return solve(v, x); });
    both("determinant-batch", positive, [](const NDArray& v) { return det(v); });
    forward("qr-batch", x, [](const NDArray& v) { return qr(v).r; });
    forward("svd-batch", x, [](const NDArray& v) { return svd(v).s; });
    forward("eigh-batch", positive, [](const NDArray& v) { return eigh(v).values; });
  }

  void products() {
    const std::int64_t n = wide(512);
    const NDArray x = drawn({n, n}), half = x.slice(0, 0, n / 2).slice(1, 0, n / 2).copy();
    forward("einsum", x, [&](const NDArray& v) { return einsum("ij,kj->ki", {v, x}); });
    forward("kron", half, [&](const NDArray& v) { return kron(v, ones({4, 4}, typed(dtype_))); });
    const NDArray each = drawn({many(512), wide(16), wide(16)}), other = drawn(each.shape());
    both("batch-dot", each, [&](const NDArray& v) { return batch_dot(v, other, false, true); }, {other});
  }

  void draws() {
    const std::int64_t n = small_ ? 64 : many(1 << 20);
    const ArrayOptions of = typed(dtype_);
    const auto draw = [&](const std::string& name, const std::function<NDArray()>& f) { time(name, "forward", f); };
    draw("bernoulli-uniform", [&] { return random::uniform({n}, of) < 0.3; });
    draw("exponential", [&] { return random::exponential(1, {n}, of); });
    draw("laplace", [&] { return random::laplace(0, 1, {n}, of); });
    draw("gumbel", [&] { return random::gumbel(0, 1, {n}, of); });
    draw("truncated-normal", [&] { return random::truncated_normal(0, 1, -2, 2, {n}, of); });
    draw("gamma", [&] { return random::gamma(2.5, 1, {n}, of); });
    draw("beta", [&] { return random::beta(2, 3, {n}, of); });
    draw("poisson", [&] { return random::poisson(4, {n}, typed(int64)); });
    draw("randint", [&] { return random::randint(0, 100, {n}, typed(int64)); });
    draw("permutation", [&] { return random::permutation(n, device_); });
    const NDArray weights = drawn({wide(64), wide(1000)}, 0.1, 1);
    draw("categorical", [&] { return random::categorical(weights, 100); });
  }

  void activations() {
    const NDArray x = drawn({small_ ? 64 : many(1 << 20)});
    both("gelu", x, [](const NDArray& v) { return gelu(v); });
    both("silu", x, [](const NDArray& v) { return silu(v); });
    both("softplus", x, [](const NDArray& v) { return softplus(v); });
    both("elu", x, [](const NDArray& v) { return elu(v, 1); });
    both("erf", x, [](const NDArray& v) { return erf(v); });
    both("lgamma", abs(x) + 1, [](const NDArray& v) { return gammaln(v); });
    forward("digamma", abs(x) + 1, [](const NDArray& v) { return digamma(v); });
    both("power", abs(x) + 1, [&](const NDArray& v) { return power(v, x); });
    const NDArray positive = abs(x) + 1;  // beside which no gradient is more than float16 holds
    both("arctan2", x, [&](const NDArray& v) { return arctan2(v, positive); });
    forward("remainder", x, [&](const NDArray& v) { return v % (x + 3); });
  }

  // Ten weights of a million in one call.
  void optimizers() {
    std::vector<NDArray> weights, gradients;
    for (int i = 0; i < 10; ++i) {
      const Shape shape = small_ ? Shape{8, 8} : Shape{1024, 1024};
      weights.push_back(drawn(shape));
      gradients.push_back(drawn(shape));
    }
    const auto step = [&](const std::string& name, const auto& rule, const auto& shape_of) {
      std::vector<std::vector<NDArray>> states(rule.states().size());
      for (std::size_t s = 0; s < states.size(); ++s) {
        for (const NDArray& weight : weights)
          states[s].push_back(zeros(shape_of(s, weight.shape()), {.device = device_}));
      }
      UpdateOptions update;
      update.steps = std::vector<std::int64_t>(weights.size(), 3);
      time(name, "step", [&] {
        optimizer_update(rule, weights, gradients, states, update);
        return weights[0];
      });
    };
    const auto same = [](std::size_t, const Shape& shape) { return shape; };
    step("adamw", update_rules::AdamW{}, same);
    step("rmsprop", update_rules::RmsProp{}, same);
    step("lamb", update_rules::Lamb{}, same);
    const update_rules::Adafactor factored;
    step("adafactor", factored, [&](std::size_t s, const Shape& shape) { return factored.state_shape(s, shape); });
  }

  bench::Report& report_;
  DType dtype_;
  Device device_;
  bool small_;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_families", "The time of one call of operators by family, forward and with its gradient");
  std::string dtype = "float32";
  int workers = 0;
  report.flag("--dtype", dtype, "Of what the arrays are").one_of({"float32", "float16", "bfloat16"}).with_default();
  report.flag("--workers", workers, "Threads of the engine; 0: as many as there are cores").range(0, 1024);
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    Families(report, parse_dtype(dtype)).run();
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
