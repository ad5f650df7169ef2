#include <algorithm>
#include <limits>
#include <vector>

#include <cuda_runtime.h>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/handle.h>
#include <sluice/operator/attention/plan_cuda.h>
#include <sluice/operator/library/shared_library.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

// Raised with every change of what attention_graph() makes of the same numbers: plans are kept on disk.
constexpr int k_graph = 1;
// Of the backward pass. What it adds up in a fixed order it first writes down, 2 bytes a score: heads that need more
// come one after the other. With a quarter of it 16 images of 16 heads, 2048 long, take 17% longer.
constexpr std::int64_t k_most_scratch = std::int64_t{1} << 31;
// What all of this was tried with. Others may be as right and as deterministic, or not: 9.19 itself takes masks that it
// then computes other gradients with.
constexpr std::size_t k_least_version = 91900;
constexpr int k_generation = 9;
constexpr std::int64_t k_tile = 64;  // that lengths are rounded up to there

const float k_hidden = -std::numeric_limits<float>::infinity(), k_one = 1;

CacheKey key_of(const AttentionProblem& p) {
  CacheKey key = CacheKey::of(
      static_cast<int>(p.pass),
      static_cast<int>(p.dtype),
      int{p.causal},
      p.mask_dtype ? static_cast<int>(*p.mask_dtype) : -1);
  for (const Shape* shape :
       {&p.q,
        &p.k,
        &p.v,
        &p.q_strides,
        &p.k_strides,
        &p.v_strides,
        &p.y_strides,
        &p.head_strides,
        &p.dq_strides,
        &p.dk_strides,
        &p.dv_strides,
        &p.mask,
        &p.mask_strides})
    key.add(*shape);
  key.add(p.statistics_alignment);
  key.add(p.mask_alignment);
  return key;
}

/// The arrays and numbers that a plan takes.
struct Operands {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;

  Operands(const AttentionProblem& p, const AttentionData& d, void* row_sums) {
    add(AttentionId::q, d.q);
    add(AttentionId::k, d.k);
    add(AttentionId::v, d.v);
    add(AttentionId::y, d.y);
    add(AttentionId::statistics, d.statistics);
    if (p.mask_dtype)
      add(AttentionId::mask, d.mask);
    add_number(AttentionId::scale, d.scale);
    if (p.causal)
      add_number(AttentionId::hidden, k_hidden);
    if (p.pass == AttentionPass::forward)
      return;
    add(AttentionId::head, d.head);
    add(AttentionId::dq, d.dq);
    add(AttentionId::dk, d.dk);
    add(AttentionId::dv, d.dv);
    add(AttentionId::row_sums, row_sums);
    add_number(AttentionId::one, k_one);
  }

 private:
  void add(std::int64_t id, void* pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  void add_number(std::int64_t id, const float& number) { add(id, const_cast<float*>(&number)); }
};

// The first that cuDNN names: others need as much scratch and take twice as long, at all sizes that were tried.
constexpr CudnnLimits k_limits{.workspace = std::numeric_limits<std::int64_t>::max()};

CudnnPlan make_plan(std::shared_ptr<const CudnnMaker> maker, const AttentionProblem& problem) {
  CudnnGraph graph = attention_graph(problem);
  if (graph.refused())
    return {};
  return cudnn_plan(
      std::move(maker),
      std::move(graph.parts),
      std::move(graph.operations),
      k_limits,
      {.ids = {},
       .bytes = {},
       .key = message("attention ", k_graph, key_of(problem).text()),
       .compiles = true,
       .tries = false});
}

void run(const Queue& queue, const AttentionProblem& problem, const AttentionData& data) {
  const bool is_backward = problem.pass == AttentionPass::backward;
  const std::int64_t rows = problem.q[0] * problem.q[1] * problem.q[2];
  const Workspace row_sums(queue, is_backward ? sizeof(float) * static_cast<std::size_t>(rows) : 0);
  const Operands operands(problem, data, row_sums.data());
  CudnnPlans& made = CudnnPlans::of(queue);
  CacheKey key = key_of(problem);
  key.add(queue.device().index);
  const auto plan =
      made.plans.get(key, [&] { return std::make_shared<const CudnnPlan>(make_plan(made.maker(queue), problem)); });
  require<UnsupportedError>(plan->plan != nullptr, [&] {
    return message(
        is_backward ? "attention_fused_backward" : "attention_fused",
        ": cuDNN has no kernel for q ",
        problem.q,
        ", k ",
        problem.k,
        " and v ",
        problem.v,
        " of ",
        problem.dtype,
        " on ",
        queue.device());
  });
  cudnn_run(queue, *plan, operands.ids, operands.pointers);
}

/// Images, and groups of heads of each, that one run takes.
struct Part {
  std::int64_t image = 0, images = 0, group = 0, groups = 0;
};

/// The largest power of two, of no more than 16 bytes, that so many elements are a multiple of.
std::int64_t alignment_of(std::int64_t elements, std::size_t element) {
  std::int64_t alignment = 16;
  while (elements * static_cast<std::int64_t>(element) % alignment != 0)
    alignment /= 2;
  return alignment;
}

void* moved(void* data, std::int64_t elements, std::size_t element) {
  return data == nullptr ? nullptr : static_cast<char*>(data) + elements * static_cast<std::int64_t>(element);
}

void run_part(const Queue& queue, const AttentionProblem& whole, const AttentionData& all, const Part& part) {
  const std::int64_t each = whole.q[1] / whole.k[1];  // heads of q that share one of k
  AttentionProblem p = whole;
  AttentionData d = all;
  const auto cut = [&](Shape& extents, std::int64_t heads) {
    extents[0] = part.images;
    extents[1] = heads;
  };
  cut(p.q, part.groups * each);
  cut(p.k, part.groups);
  cut(p.v, part.groups);
  const std::size_t half = size_of(p.dtype);
  const auto move = [&](void*& data, const Shape& strides, std::int64_t heads, std::size_t element) {
    data = moved(data, part.image * strides[0] + part.group * heads * strides[1], element);
  };
  move(d.q, whole.q_strides, each, half);
  move(d.k, whole.k_strides, 1, half);
  move(d.v, whole.v_strides, 1, half);
  move(d.y, whole.y_strides, each, half);
  move(d.head, whole.head_strides, each, half);
  move(d.dq, whole.dq_strides, each, half);
  move(d.dk, whole.dk_strides, 1, half);
  move(d.dv, whole.dv_strides, 1, half);
  move(d.statistics, contiguous_strides({whole.q[0], whole.q[1], whole.q[2]}), each, sizeof(float));
  p.statistics_alignment = alignment_of(each * whole.q[2], sizeof(float));
  if (p.mask_dtype) {
    p.mask[0] = std::min(whole.mask[0], part.images);
    p.mask[1] = std::min(whole.mask[1], part.groups * each);
    const std::int64_t image = whole.mask[0] == 1 ? 0 : part.image, head = whole.mask[1] == 1 ? 0 : part.group * each;
    const std::int64_t image_step = whole.mask[0] == 1 ? 0 : p.mask_strides[0];
    const std::int64_t head_step = whole.mask[1] == 1 ? 0 : p.mask_strides[1] * each;
    const std::size_t element = size_of(*p.mask_dtype);
    d.mask = moved(d.mask, image * p.mask_strides[0] + head * p.mask_strides[1], element);
    p.mask_alignment = std::min(alignment_of(image_step, element), alignment_of(head_step, element));
  }
  run(queue, p, d);
}

bool is_known(int device) {
  int generation = 0;
  cuda::cuda_check(
      cudaDeviceGetAttribute(&generation, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  return generation == k_generation && cudnn_calls.cudnnGetVersion() >= k_least_version;
}

std::int64_t rounded_up(std::int64_t length) {
  return (length + k_tile - 1) / k_tile * k_tile;
}

}  // namespace

bool attention_has_kernel(Engine& engine, Device device, const AttentionProblem& problem) {
  if (problem.q.size() == 0 || problem.k.size() == 0)
    return true;  // that takes none of a library's
  if (!cudnn_library().load())
    return false;
  CudnnPlans& made = engine.extension<CudnnPlans>();
  CacheKey key = key_of(problem);
  key.add(device.index);
  return *made.answers.get(key, [&] {
    const cuda::DeviceScope there(device.index);
    return std::make_shared<const bool>(is_known(device.index) && made.ask(device.index, [&](const CudnnMaker& maker) {
      const CudnnGraph graph = attention_graph(problem);
      return !graph.refused() && cudnn_has_engine(maker, graph.operations, k_limits);
    }));
  });
}

void attention_by_plan(const Queue& queue, const AttentionProblem& problem, const AttentionData& data) {
  cudnn_library().require("attention_fused");
  if (problem.pass == AttentionPass::forward)
    return run(queue, problem, data);
  const std::int64_t images = problem.q[0], groups = problem.k[1];
  const std::int64_t group =
      2 * (problem.q[1] / groups) * rounded_up(problem.q[2]) * rounded_up(problem.k[2]);  // bytes of scratch
  const std::int64_t at_once = std::max<std::int64_t>(1, k_most_scratch / group);
  if (at_once >= images * groups)
    return run(queue, problem, data);
  const std::int64_t image_step = std::max<std::int64_t>(1, at_once / groups), group_step = std::min(at_once, groups);
  for (std::int64_t image = 0; image < images; image += image_step) {
    for (std::int64_t first = 0; first < groups; first += group_step)
      run_part(
          queue,
          problem,
          data,
          {image, std::min(image_step, images - image), first, std::min(group_step, groups - first)});
  }
}

}  // namespace sluice::detail
