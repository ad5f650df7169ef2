#ifdef SLUICE_ONEDNN
#include <utility>

#include <sluice/operator/library/onednn.h>

namespace sluice::detail {

void run_onednn(
    const char* op, const Queue& queue, const OnednnPlan& plan, std::unordered_map<int, dnnl::memory> args) {
  Onednn& library = Onednn::of(queue);
  const Workspace scratch(queue, plan.scratch.get_size());
  if (scratch.data() != nullptr)
    args.insert_or_assign(DNNL_ARG_SCRATCHPAD, dnnl::memory(plan.scratch, library.engine, scratch.data()));
  dnnl::stream stream(library.engine);
  try {
    plan.primitive.execute(stream, args);
  } catch (const dnnl::error& error) {
    throw Error(message(op, ": oneDNN says ", error.what()));
  }
}

void reorder_onednn(const Queue& queue, dnnl::memory from, dnnl::memory to) {
  dnnl::stream stream(Onednn::of(queue).engine);
  dnnl::reorder(from, to).execute(stream, from, to);
}

}  // namespace sluice::detail
#endif
