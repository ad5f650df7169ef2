#include <cstring>

#include <sluice/operator/library/one_thread.h>
#include <sluice/operator/rnn/step_library.h>

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

using dnnl::memory;

OnednnPlan make_plan(const dnnl::engine& engine, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  constexpr auto f32 = memory::data_type::f32;
  const memory::desc state(memory::dims{1, rows, depth}, f32, memory::dims{rows * depth, depth, 1});
  const memory::desc weight(memory::dims{1, depth, columns}, f32, memory::dims{depth * columns, 1, depth});
  const memory::desc any(memory::dims{1, depth, columns}, f32, memory::format_tag::any);
  const memory::desc product(memory::dims{1, rows, columns}, f32, memory::dims{rows * columns, columns, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto chosen = onednn_describe<dnnl::matmul>(engine, attributes, state, any, product);
  OnednnPlan plan;
  plan.scratch = chosen.scratchpad_desc();
  plan.primitive = dnnl::matmul(chosen);
  plan.x = OnednnLayout(engine, state, state, false);
  plan.weight = OnednnLayout(engine, weight, chosen.weights_desc(), false);
  plan.y = OnednnLayout(engine, product, product, true);
  return plan;
}

}  // namespace

std::unique_ptr<StepLibrary> StepLibrary::find(
    const Queue& queue, std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t blocks) {
  if (!has_onednn("rnn"))
    return nullptr;
  Onednn& library = Onednn::of(queue);
  constexpr std::int64_t kind = 3;  // apart from other primitives in the cache
  const OneThreadScope alone;
  auto plan = library.plans.get(CacheKey::of(kind, rows, columns, depth), [&] {
    return onednn_plan([&] { return make_plan(library.engine, rows, columns, depth); });
  });
  return plan->usable ? std::make_unique<StepLibrary>(queue, std::move(plan), blocks) : nullptr;
}

StepLibrary::StepLibrary(const Queue& queue, std::shared_ptr<const OnednnPlan> plan, std::int64_t blocks)
    : queue_(queue),
      plan_(std::move(plan)),
      packed_(*plan_),
      each_((plan_->weight.wanted.get_size() + 63) / 64 * 64),
      weights_(queue, each_ * static_cast<std::size_t>(blocks)) {
  const memory::desc& wanted = plan_->weight.wanted;
  packed_.weight = OnednnLayout(Onednn::of(queue).engine, wanted, wanted, false);
}

char* StepLibrary::weight(std::int64_t block) const noexcept {
  return weights_.as<char>() + each_ * static_cast<std::size_t>(block);
}

void StepLibrary::pack(std::int64_t block, const float* columns) {
  const OnednnLayout& layout = plan_->weight;
  if (layout.same) {
    std::memcpy(weight(block), columns, layout.ours.get_size());
    return;
  }
  const OneThreadScope alone;
  const dnnl::engine& engine = Onednn::of(queue_).engine;
  memory from(layout.ours, engine, const_cast<float*>(columns)), to(layout.wanted, engine, weight(block));
  try {
    dnnl::stream stream(engine);
    layout.copy.execute(stream, from, to);
  } catch (const dnnl::error& error) {
    throw Error(message("rnn: oneDNN says ", error.what()));
  }
}

void StepLibrary::multiply(std::int64_t block, const float* state, float* product) {
  const OneThreadScope alone;
  OnednnCall call("rnn", queue_, packed_);
  call.input(DNNL_ARG_SRC, packed_.x, const_cast<float*>(state));
  call.input(DNNL_ARG_WEIGHTS, packed_.weight, weight(block));
  call.output(DNNL_ARG_DST, packed_.y, product);
  call.run();
}

#else
std::unique_ptr<StepLibrary> StepLibrary::find(const Queue&, std::int64_t, std::int64_t, std::int64_t, std::int64_t) {
  return nullptr;
}
#endif

}  // namespace sluice::detail
