#include <sluice/operator/library/onednn.h>
#include <sluice/operator/library/team.h>
#include <sluice/operator/matmul/product.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

using Dims = dnnl::memory::dims;

dnnl::memory::desc describe(const Matrix& matrix, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  // A batch stride of 0 repeats one matrix: an extent of 1, which oneDNN broadcasts.
  const std::int64_t extent = batch > 1 && matrix.batch == 0 ? 1 : batch;
  const std::int64_t stride = extent == 1 ? rows * columns : matrix.batch;
  return {Dims{extent, rows, columns}, dnnl::memory::data_type::f32, Dims{stride, matrix.row, matrix.column}};
}

OnednnPlan make_plan(const dnnl::engine& engine, const GemmProblem& p) {
  OnednnPlan plan;
  const dnnl::memory::desc a = describe(p.a, p.batch, p.m, p.k);
  const dnnl::memory::desc b = describe(p.b, p.batch, p.k, p.n);
  const dnnl::memory::desc c = describe(p.c, p.batch, p.m, p.n);
  plan.x = OnednnLayout(engine, a, a, false);
  plan.weight = OnednnLayout(engine, b, b, false);
  plan.y = OnednnLayout(engine, c, c, true);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto make = [&](const auto&... what) {
    const auto chosen = onednn_describe<dnnl::matmul>(engine, attributes, what...);
    plan.scratch = chosen.scratchpad_desc();
    plan.primitive = dnnl::matmul(chosen);
  };
  if (p.column_bias != nullptr) {
    plan.bias = {Dims{1, 1, p.n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::abc};
    make(a, b, plan.bias, c);
  } else {
    make(a, b, c);
  }
  return plan;
}

bool takes(const GemmProblem& p) {
  const bool joined = !p.relu || (p.batch == 1 && p.c.row == p.n);  // for whoever applies relu
  return joined && p.dtype == DType::float32 && p.batch > 0 && p.m > 0 && p.n > 0 && p.k > 0 && p.row_bias == nullptr &&
         !p.accumulate && is_plain(p) && is_row_major(p.c, p.m, p.n);
}

}  // namespace

bool product_onednn(const Queue& queue, const GemmProblem& p) {
  if (!takes(p) || !has_onednn("matmul"))
    return false;
  const TeamScope team(queue.threads());
  Onednn& library = Onednn::of(queue);
  constexpr std::int64_t kind = 1;  // apart from other primitives in the cache
  const auto key = CacheKey::of(
      kind,
      team.threads(),
      p.batch,
      p.m,
      p.n,
      p.k,
      p.a.row,
      p.a.column,
      p.a.batch,
      p.b.row,
      p.b.column,
      p.b.batch,
      p.c.row,
      p.c.batch,
      p.column_bias != nullptr);
  const auto plan = library.plans.get(key, [&] { return onednn_plan([&] { return make_plan(library.engine, p); }); });
  if (!plan->usable)
    return false;
  OnednnCall call("matmul", queue, *plan);
  call.input(DNNL_ARG_SRC, plan->x, p.a.data);
  call.input(DNNL_ARG_WEIGHTS, plan->weight, p.b.data);
  if (p.column_bias != nullptr)
    call.plain(DNNL_ARG_BIAS, plan->bias, const_cast<void*>(p.column_bias));
  call.output(DNNL_ARG_DST, plan->y, p.c.data);
  call.run();
  return true;
}

#else
bool product_onednn(const Queue&, const GemmProblem&) {
  return false;
}
#endif

}  // namespace sluice::detail
