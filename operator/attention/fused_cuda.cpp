#include <cstdint>
#include <limits>
#include <optional>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/operator/attention/fused.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

constexpr std::uintptr_t k_alignment = 16;  // bytes, that plans are made for

// An operand as plans take it: of that shape, to which it is stretched, and a copy of one that begins where no load of
// theirs may.
class Operand {
 public:
  Operand(const Queue& queue, const TensorView& x) : Operand(queue, x, x.shape, false) {}
  Operand(const Queue& queue, const TensorView& x, const Shape& shape, bool gapless)
      : data_(x.data), strides_(x.strides) {
    const Shape dense = contiguous_strides(shape);
    if (shape != x.shape || reinterpret_cast<std::uintptr_t>(x.data) % k_alignment != 0 || (gapless && !x.contiguous)) {
      const Shape stretched = broadcast_strides(x.shape, x.strides, shape, "attention_fused");
      copy_.emplace(queue, static_cast<std::size_t>(shape.size()) * size_of(x.dtype));
      data_ = copy_->data();
      strides_ = dense;
      const CopyPlan plan = plan_strided<2>(shape, {&dense, &stretched}, AxisOrder::free);
      cast_on_gpu(queue.stream(), plan, data_, x.dtype, x.data, x.dtype);
    }
    for (int axis = 0; axis < shape.ndim(); ++axis)
      strides_[axis] = shape[axis] == 1 ? dense[axis] : strides_[axis];  // whatever it was
  }

  void* data() const noexcept { return data_; }
  const Shape& strides() const noexcept { return strides_; }
  /// Of (B, L, H, F) as (B, H, L, F).
  Shape strides_by_heads() const { return {strides_[0], strides_[2], strides_[1], strides_[3]}; }

 private:
  void* data_;
  Shape strides_;
  std::optional<Workspace> copy_;
};

// A result as plans write it: where it is wanted, or first to where their stores may begin.
class Target {
 public:
  Target(const Queue& queue, const TensorView& to) : queue_(queue), to_(to) {
    if (reinterpret_cast<std::uintptr_t>(to.data) % k_alignment != 0)
      made_.emplace(queue, bytes());
  }

  void* data() const noexcept { return made_ ? made_->data() : to_.data; }
  /// Behind what writes it.
  void deliver() const {
    if (made_)
      copy_bytes(queue_.stream(), to_.data, made_->data(), bytes());
  }

 private:
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(to_.size) * size_of(to_.dtype); }

  const Queue& queue_;
  const TensorView& to_;
  std::optional<Workspace> made_;
};

void clear(const KernelCall& call, const TensorView& to) {
  if (to.size > 0)
    cuda::cuda_check(
        cudaMemsetAsync(to.data, 0, static_cast<std::size_t>(to.size) * size_of(to.dtype), stream_of(call.queue)),
        "cudaMemsetAsync");
}

/// q, k and v, which may be parts of one array.
struct HeadViews {
  TensorView q, k, v;

  explicit HeadViews(const KernelCall& call) : q(call.inputs[0]), k(q), v(q) {
    const std::int64_t shared = call.attributes.as<FusedAttentionAttributes>().kv_heads;
    if (shared == 0) {
      k = call.inputs[1];
      v = call.inputs[2];
      return;
    }
    const TensorView& all = call.inputs[0];
    const std::int64_t heads = all.shape[2] - 2 * shared;
    q = part(all, 0, heads);
    k = part(all, heads, shared);
    v = part(all, heads + shared, shared);
  }

 private:
  static TensorView part(const TensorView& all, std::int64_t first, std::int64_t heads) {
    TensorView view = all;
    const Shape &shape = all.shape, &strides = all.strides;
    view.data = all.as<char>() + first * strides[2] * static_cast<std::int64_t>(size_of(all.dtype));
    view.shape = {shape[0], heads, shape[1], shape[3]};
    view.strides = {strides[0], strides[2], strides[1], strides[3]};
    view.size = view.shape.size();
    view.contiguous = false;
    return view;
  }
};

// What both passes have of q, k and v, and of the mask at that place.
struct Common {
  Operand q, k, v;
  std::optional<Operand> mask;
  AttentionProblem problem;
  AttentionData data;

  Common(const KernelCall& call, const HeadViews& heads, AttentionPass pass, std::size_t mask_place)
      : q(call.queue, heads.q), k(call.queue, heads.k), v(call.queue, heads.v) {
    const auto& how = call.attributes.as<FusedAttentionAttributes>();
    problem = attention_problem(pass, heads.q.shape, heads.k.shape, heads.v.shape, heads.q.dtype, how);
    problem.q_strides = q.strides();
    problem.k_strides = k.strides();
    problem.v_strides = v.strides();
    data = {.q = q.data(), .k = k.data(), .v = v.data(), .scale = static_cast<float>(how.scale)};
    if (call.inputs.size() <= mask_place)
      return;
    const TensorView& given = call.inputs[mask_place];
    problem.add_mask(given.shape, given.dtype);
    mask.emplace(call.queue, given, problem.mask, true);
    data.mask = mask->data();
  }
};

// Where the next heads of a place lie.
void* behind(void* data, const TensorView& part) {
  return static_cast<char*>(data) + part.shape[1] * part.shape[3] * static_cast<std::int64_t>(size_of(part.dtype));
}

}  // namespace

void attention_fused_gpu(const KernelCall& call) {
  const TensorView &y = call.outputs[0], &statistics = call.outputs[1];
  if (y.size == 0)
    return;
  const HeadViews heads(call);
  if (heads.k.size == 0) {
    clear(call, y);
    const FillPlan plan = plan_strided<1>(statistics.shape, {&statistics.strides}, AxisOrder::free);
    return fill_on_gpu(
        call.queue.stream(), plan, statistics.data, statistics.dtype, -std::numeric_limits<double>::infinity());
  }
  const std::size_t operands = call.attributes.as<FusedAttentionAttributes>().operands();
  Common common(call, heads, AttentionPass::forward, operands);
  const Target made(call.queue, y), kept(call.queue, statistics);
  common.data.y = made.data();
  common.data.statistics = kept.data();
  attention_by_plan(call.queue, common.problem, common.data);
  made.deliver();
  kept.deliver();
}

void attention_fused_backward_gpu(const KernelCall& call) {
  const HeadViews heads(call);
  if (heads.q.size == 0 || heads.k.size == 0) {
    for (const TensorView& gradient : call.outputs)
      clear(call, gradient);
    return;
  }
  const auto& how = call.attributes.as<FusedAttentionAttributes>();
  const std::size_t first = how.operands();
  Common common(call, heads, AttentionPass::backward, first + 3);
  const Operand y(call.queue, call.inputs[first]), statistics(call.queue, call.inputs[first + 1]),
      head(call.queue, call.inputs[first + 2]);
  const Target dq(call.queue, call.outputs[0]);
  std::optional<Target> dk, dv;
  if (!how.packed()) {
    dk.emplace(call.queue, call.outputs[1]);
    dv.emplace(call.queue, call.outputs[2]);
  }
  common.problem.y_strides = y.strides_by_heads();
  common.problem.head_strides = head.strides_by_heads();
  common.data.y = y.data();
  common.data.statistics = statistics.data();
  common.data.head = head.data();
  common.data.dq = dq.data();
  common.data.dk = dk ? dk->data() : behind(dq.data(), heads.q);
  common.data.dv = dv ? dv->data() : behind(common.data.dk, heads.k);
  attention_by_plan(call.queue, common.problem, common.data);
  dq.deliver();
  if (dk)
    dk->deliver();
  if (dv)
    dv->deliver();
}

}  // namespace sluice::detail
