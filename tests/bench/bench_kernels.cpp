// The memory rate of operators that read and write whole arrays: what has to move at least, by the time taken.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

class Kernels {
 public:
  Kernels(bench::Report& report, DType dtype)
      : report_(report), dtype_(dtype), device_(report.options().device), small_(report.options().smoke) {}

  void run() {
    moves();
    walks();
    rows();
    channels();
    residuals();
    if (dtype_ == float32)
      streams();
    windows();
    numbers();
    steps();
    scans();
    orders();
    places();
  }

 private:
  // `passes` times the elements of `x` are read or written at least.
  void rate(const std::string& workload, const NDArray& x, double passes, const std::function<NDArray()>& call) {
    const std::string variant = message(dtype_);
    if (!report_.wants(workload, variant))
      return;
    NDArray y;
    const auto wait = [] { Engine::current().wait_all(); };
    const bench::Timing timing = report_.time(
        device_.is_gpu() ? 200 : 2, 2, [&] { y = call(); }, wait);  // what the wait takes counts for little
    const double bytes = passes * static_cast<double>(x.size()) * static_cast<double>(size_of(dtype_));
    report_.add(workload, variant, "rate", bytes / timing.median / 1e9, "GB/s", bytes / timing.min / 1e9);
    const double checked = sum(y.astype(float32)).item<double>();
    report_.expect(std::isfinite(checked), workload);
  }

  NDArray drawn(const Shape& shape) const {
    random::seed(3);
    return random::uniform(-1, 1, shape, {.device = device_}).astype(dtype_);
  }

  void moves() {
    const std::int64_t n = small_ ? 64 : device_.is_gpu() ? 8192 : 4096;
    const NDArray x = drawn({n, n});
    rate("copy", x, 2, [&] { return x.copy(); });
    rate("transpose", x, 2, [&] { return x.T().copy(); });
    rate("add-transposed", x, 3, [&] { return x + x.T(); });
    const NDArray odd = drawn({n - 1, n - 1});
    rate("transpose-odd", odd, 2, [&] { return odd.T().copy(); });
    const NDArray images = small_ ? drawn({2, 16, 8, 8}) : drawn({64, 256, 56, 56});
    rate("channels-last", images, 2, [&] { return images.transpose({0, 2, 3, 1}).copy(); });
    const NDArray pictures = small_ ? drawn({2, 3, 16, 16}) : drawn({256, 3, 224, 224});
    rate("pictures-last", pictures, 2, [&] { return pictures.transpose({0, 2, 3, 1}).copy(); });
    const NDArray row = drawn({1, n - 1}), column = drawn({n - 1, 1});
    rate("add-row-odd", odd, 2, [&] { return odd + row; });
    rate("add-column-odd", odd, 2, [&] { return odd + column; });
    layouts(x, images);
  }

  void layouts(const NDArray& x, const NDArray& images) {
    const std::int64_t n = x.shape()[0];
    const NDArray y = drawn({n, n}), half = drawn({n, n / 2});
    rate("add-both-transposed", x, 3, [&] { return x.T() + y.T(); });
    rate("exp-transposed", x, 2, [&] { return exp(x.T()); });
    // Memory comes in pieces of 32 bytes: of every second element all of them are read.
    rate("add-every-second", half, 4, [&] { return x.slice(1, 0, n, 2) + half; });
    const NDArray last = images.transpose({0, 2, 3, 1}).copy().transpose({0, 3, 1, 2});
    rate("add-channels-last", images, 3, [&] { return images + last; });
  }

  void walks() {
    const std::int64_t n = small_ ? 64 : device_.is_gpu() ? 8192 : 4096;
    const NDArray x = drawn({n, n}), left = drawn({n, n / 2}), right = drawn({n, n / 2 - 1});
    rate("concat", x, 2, [&] { return concat({left, left}, 1); });
    rate("concat-odd", x, 2, [&] { return concat({left, right}, 1); });
    rate("pad", x, 2, [&] { return pad(x, {{0, 0}, {1, 2}}); });
    rate("pad-reflect", x, 2, [&] { return pad(x, {{0, 0}, {1, 2}}, PadMode::reflect); });
    rate("roll", x, 2, [&] { return roll(x, 3, 1); });
    rate("flip", x, 2, [&] { return flip(x, 1); });
    rate("flip-rows", x, 2, [&] { return flip(x, 0); });
    rate("tile", x, 3, [&] { return tile(x, {1, 2}); });
    rate("repeat", x, 3, [&] { return repeat(x, 2, 1); });
  }

  void rows() {
    const Shape shape = small_ ? Shape{8, 64} : device_.is_gpu() ? Shape{32768, 4096} : Shape{4096, 4096};
    const NDArray x = drawn(shape), head = drawn(shape);
    rate("softmax", x, 2, [&] { return softmax(x); });
    rate("log-softmax", x, 2, [&] { return log_softmax(x); });
    gradient("softmax-backward", x, head, 3, [](const NDArray& v) { return softmax(v); });
    norms(x, head);
    rate("argmax", x, 1, [&] { return argmax(x, 1); });
    rate("argmax-columns", x, 1, [&] { return argmax(x, 0); });
    const NDArray all = x.reshape({-1});
    rate("argmax-all", all, 1, [&] { return argmax(all, 0); });
    const NDArray labels = zeros({shape[0]}, {.dtype = int32, .device = device_});
    rate("cross-entropy", x, 1, [&] { return softmax_cross_entropy(x, labels); });
    gradient(
        "cross-entropy-backward",
        x,
        zeros({shape[0]}, {.dtype = dtype_, .device = device_}) + 1,
        2,
        [&](const NDArray& v) { return softmax_cross_entropy(v, labels); });
    rate("sum-rows", x, 1, [&] { return sum(x, {1}); });
    rate("sum-columns", x, 1, [&] { return sum(x, {0}); });
    rate("max-rows", x, 1, [&] { return max(x, {1}); });
    rate("max-columns", x, 1, [&] { return max(x, {0}); });
  }

  // Gradients of all: of gamma and beta too, which are made of what is read anyway.
  void norms(const NDArray& x, const NDArray& head) {
    const std::int64_t width = x.shape()[1];
    NDArray gamma = ones({width}, {.device = device_}), beta = zeros({width}, {.device = device_});
    rate("layer-norm", x, 2, [&] { return layer_norm(x, gamma, beta); });
    rate("rms-norm", x, 2, [&] { return rms_norm(x, gamma); });
    gamma.attach_grad();
    beta.attach_grad();
    gradient("layer-norm-backward", x, head, 3, [&](const NDArray& v) { return layer_norm(v, gamma, beta); });
    gradient("rms-norm-backward", x, head, 3, [&](const NDArray& v) { return rms_norm(v, gamma); });
  }

  void groups(const NDArray& x, const NDArray& head) {
    const std::int64_t count = x.shape()[1];
    NDArray gamma = ones({count}, {.device = device_}), beta = zeros({count}, {.device = device_});
    gamma.attach_grad();
    beta.attach_grad();
    const auto group = [&](const NDArray& v) { return group_norm(v, gamma, beta, 16); };
    const auto instance = [&](const NDArray& v) { return instance_norm(v, gamma, beta); };
    rate("group-norm", x, 2, [&] { return group(x); });
    rate("instance-norm", x, 2, [&] { return instance(x); });
    gradient("group-norm-backward", x, head, 5, group);
    gradient("instance-norm-backward", x, head, 5, instance);
    gradient(
        "l2-normalization-backward", x, head, 3, [](const NDArray& v) { return l2_normalization(v, L2Mode::spatial); });
  }

  // Indices are of eight bytes, whatever the type.
  void scans() {
    const Shape shape = small_ ? Shape{8, 64} : device_.is_gpu() ? Shape{32768, 4096} : Shape{4096, 4096};
    const NDArray x = drawn(shape), all = x.reshape({-1}), short_rows = x.reshape({-1, 8});
    const double with_indices = 2 + 8 / static_cast<double>(size_of(dtype_));
    rate("cumsum-rows", x, 2, [&] { return cumsum(x, 1); });
    rate("cumsum-columns", x, 2, [&] { return cumsum(x, 0); });
    rate("cumsum-all", all, 2, [&] { return cumsum(all, 0); });
    rate("cumsum-short", short_rows, 2, [&] { return cumsum(short_rows, 1); });
    rate("cumprod-rows", x, 2, [&] { return cumprod(x, 1); });
    rate("cummax-rows", x, with_indices, [&] { return cummax(x, 1).values; });
    rate("diff-rows", x, 2, [&] { return diff(x, 1, 1); });
    const NDArray head = drawn(shape);
    gradient("cumprod-backward", x, head, 4, [](const NDArray& v) { return cumprod(v, 1); });
  }

  void orders() {
    const Shape shape = small_ ? Shape{8, 64} : device_.is_gpu() ? Shape{16384, 1024} : Shape{1024, 1024};
    const NDArray x = drawn(shape), long_rows = x.reshape({shape[0] / 8, 8 * shape[1]}), all = x.reshape({-1});
    const double with_indices = 2 + 8 / static_cast<double>(size_of(dtype_));
    rate("sort-rows", x, 2, [&] { return sort(x); });
    rate("sort-indices-rows", x, with_indices, [&] { return sort_with_indices(x).values; });
    rate("sort-long-rows", long_rows, with_indices, [&] { return sort_with_indices(long_rows).values; });
    rate("sort-all", all, 2, [&] { return sort(all); });
    rate("argsort-all", all, with_indices, [&] { return argsort(all); });
    rate("topk-rows", x, 1, [&] { return topk(x, 10).values; });
    rate("topk-long-rows", long_rows, 1, [&] { return topk(long_rows, 50).values; });
    rate("topk-all", all, 1, [&] { return topk(all, 50).values; });
    const NDArray sorted = sort(all.slice(0, 0, shape[1]).copy());
    rate("searchsorted", all, with_indices - 1, [&] { return searchsorted(sorted, all); });
  }

  void channels() {
    const NDArray x = small_ ? drawn({2, 16, 8, 8}) : drawn({64, 256, 56, 56});
    const NDArray head = x.copy();
    const std::int64_t count = x.shape()[1];
    const NDArray gamma = ones({count}, {.device = device_}), beta = zeros({count}, {.device = device_});
    const NDArray mean = zeros({count}, {.device = device_}), var = ones({count}, {.device = device_});
    rate("sum-0-2-3", x, 1, [&] { return sum(x, {0, 2, 3}); });
    rate("batch-norm", x, 3, [&] {
      const autograd::ModeScope training(false, true);
      return batch_norm(x, gamma, beta, mean, var);
    });
    rate("batch-norm-predict", x, 2, [&] { return batch_norm(x, gamma, beta, mean, var); });
    groups(x, head);
    gradient(
        "batch-norm-backward", x, head, 5, [&](const NDArray& v) { return batch_norm(v, gamma, beta, mean, var); });
  }

  // Batch norms of ResNet-50's stages, channels as neighbours; the gradient of one with a sum and a relu behind it in
  // one call and in three.
  void residuals() {
    for (const std::int64_t channels : {256, 512, 1024, 2048}) {
      const std::int64_t side = small_ ? 2 : 56 * 256 / channels, batch = small_ ? 2 : device_.is_gpu() ? 256 : 4;
      const auto last = [&] { return drawn({batch, side, side, channels}).transpose({0, 3, 1, 2}); };
      const NDArray x = last(), a = last(), b = last(), y = relu(last());
      const ArrayOptions there{.device = device_};
      const NDArray one = ones({channels}, there), zero = zeros({channels}, there), mean = zeros({channels}, there);
      const auto call = [](const char* name, const Arrays& inputs) {
        const Operator& op = *find_operator(name);
        return invoke(op, inputs, parse_attributes(op, ""), {});
      };
      const auto of = [&](const char* what) { return message(what, "-last-", channels); };
      rate(of("batch-norm"), x, 3, [&] { return call("batch_norm", {x, one, zero, mean.copy(), one.copy()})[0]; });
      rate(of("batch-norm-backward"), x, 5, [&] { return call("batch_norm_backward", {a, x, one, zero, one})[0]; });
      rate(of("residual-backward"), x, 8, [&] {
        return call("batch_norm_add_relu_backward", {a, x, one, zero, one, y, b})[0];
      });
      rate(of("residual-backward-apart"), x, 11, [&] {
        const NDArray sum = a + b, passed = call("relu_backward", {sum, sum, y})[0];
        return call("batch_norm_backward", {passed, x, one, zero, one})[0];
      });
    }
  }

  // A residual stream in float32 whose branches are bfloat16: layer norm with the sum in front of it and the gradient
  // with that behind it, in one call and call by call.
  void streams() {
    for (const std::int64_t width : {768, 1024, 4096}) {
      const std::int64_t rows = small_ ? 8 : (device_.is_gpu() ? 32768 : 4096) * 768 / width;
      const NDArray x = drawn({rows, width}), other = drawn({rows, width}),
                    half = drawn({rows, width}).astype(bfloat16);
      const ArrayOptions there{.device = device_};
      const NDArray one = ones({width}, there), zero = zeros({width}, there);
      const NDArray mean = zeros({rows}, there), inv_std = ones({rows}, there);
      const auto call = [](const char* name, const Arrays& inputs, const char* how) {
        const Operator& op = *find_operator(name);
        return invoke(op, inputs, parse_attributes(op, how), {});
      };
      const char* const rounded = "axis=1, result=bfloat16";
      const auto of = [&](const char* what) { return message(what, "-", width); };
      rate(of("stream-norm"), x, 3, [&] { return call("add_layer_norm", {x, half, one, zero}, rounded)[0]; });
      rate(of("stream-norm-apart"), x, 6, [&] {
        return call("layer_norm", {x + half.astype(float32), one, zero}, rounded)[0];
      });
      rate(of("stream-backward"), x, 4, [&] {
        return call("add_layer_norm_backward", {half, x, one, mean, inv_std, other}, rounded)[0];
      });
      rate(of("stream-backward-apart"), x, 7, [&] {
        const NDArray sum = call("layer_norm_backward", {half, x, one, mean, inv_std}, "axis=1")[0] + other;
        return sum.astype(bfloat16);
      });
    }
  }

  void windows() {
    const NDArray x = small_ ? drawn({2, 4, 8, 8}) : drawn({64, 64, 112, 112});
    const PoolOptions options{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
    const NDArray head = max_pool2d(x, options);
    rate("max-pool", x, 1.25, [&] { return max_pool2d(x, options); });
    rate("average-pool", x, 1.25, [&] { return avg_pool2d(x, options); });
    gradient("max-pool-backward", x, head, 1.25, [&](const NDArray& v) { return max_pool2d(v, options); });
    gradient("average-pool-backward", x, head, 1.25, [&](const NDArray& v) { return avg_pool2d(v, options); });
  }

  void numbers() {
    const std::int64_t n = small_ ? 4096 : device_.is_gpu() ? 1 << 26 : 1 << 24;
    const NDArray x = drawn({n}), y = drawn({n}), chosen = x > y;
    const ArrayOptions options{.dtype = dtype_, .device = device_};
    rate("uniform", x, 1, [&] { return random::uniform({n}, options); });
    rate("normal", x, 1, [&] { return random::normal({n}, options); });
    rate("dropout", x, 2, [&] {
      const autograd::TrainScope training;
      return dropout(x, 0.3);
    });
    const double choice = 3 + 1 / static_cast<double>(size_of(dtype_));
    rate("where", x, choice, [&] { return where(chosen, x, y); });
  }

  // Numbers, of 4 bytes, are read too.
  void places() {
    const std::int64_t n = small_ ? 64 : device_.is_gpu() ? 8192 : 4096;
    const NDArray x = drawn({n, n}), flat = x.reshape({-1}), few = drawn({n / 2, n});
    const ArrayOptions numbers{.dtype = int32, .device = device_};
    const NDArray rows = random::randint(0, n, {n}, numbers), half = random::randint(0, n, {n / 2}, numbers);
    const NDArray along = random::randint(0, n, {n, n}, numbers), all = along.reshape({-1});
    const double number = 4 / static_cast<double>(size_of(dtype_));
    rate("take-rows", x, 2, [&] { return take(x, rows); });
    const NDArray one = zeros({n}, numbers);
    gradient("take-rows-backward", x, x, 2, [&](const NDArray& v) { return take(v, rows); });
    gradient("take-one-backward", x, x, 2, [&](const NDArray& v) { return take(v, one); });
    rate("update-rows", x, 3, [&] { return index_update(x, {half}, few); });
    rate("take-along-rows", x, 2 + number, [&] { return take_along_axis(x, along, 1); });
    rate("take-along-columns", x, 2 + number, [&] { return take_along_axis(x, along, 0); });
    rate("put-along-rows", x, 3 + number, [&] { return put_along_axis(x, along, x, 1); });
    gradient(
        "take-along-rows-backward", x, x, 2 + number, [&](const NDArray& v) { return take_along_axis(v, along, 1); });
    gradient("take-along-columns-backward", x, x, 2 + number, [&](const NDArray& v) {
      return take_along_axis(v, along, 0);
    });
    const NDArray sums = zeros({n}, {.dtype = dtype_, .device = device_});
    rate("add-to-few", flat, 1 + number, [&] { return index_add(sums, {all}, flat); });
    rate("take-pairs", flat, 2 + 2 * number, [&] { return take(x, {all, all}); });
    rate("assign-columns", x, 1, [&] {
      x.assign({{}, {0, n / 2}}, few.reshape({n, n / 2}));
      return x;
    });
    rate("sequence-reverse", x, 2, [&] { return sequence_reverse(x, rows, 1); });
  }

  // In place, states in float32.
  void steps() {
    const std::int64_t n = small_ ? 4096 : device_.is_gpu() ? 1 << 26 : 1 << 24;
    const NDArray weight[] = {drawn({n})}, grad[] = {drawn({n})};
    const NDArray first[] = {zeros({n}, {.device = device_})}, second[] = {ones({n}, {.device = device_})};
    const auto passes = [&](double states) { return 3 + 8 * states / static_cast<double>(size_of(dtype_)); };
    rate("momentum-step", weight[0], passes(1), [&] {
      sgd_update(weight, grad, first, {.learning_rate = 1e-3, .momentum = 0.9});
      return weight[0];
    });
    AdamUpdate adam;
    adam.steps = {3};
    rate("adam-step", weight[0], passes(2), [&] {
      adam_update(weight, grad, first, second, adam);
      return weight[0];
    });
  }

  void gradient(
      const std::string& workload,
      const NDArray& x,
      const NDArray& head,
      double passes,
      const std::function<NDArray(const NDArray&)>& f) {
    if (!report_.wants(workload, message(dtype_)))
      return;
    NDArray variable = x.copy();
    variable.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = f(variable);
    }
    rate(workload, x, passes, [&] {
      y.backward(head, {.retain_graph = true});
      return variable.grad();
    });
  }

  bench::Report& report_;
  DType dtype_;
  Device device_;
  bool small_;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_kernels", "Memory rates of operators that read and write whole arrays");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    for (const DType dtype : {float32, bfloat16})
      Kernels(report, dtype).run();
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
