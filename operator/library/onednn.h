#pragma once

#ifdef SLUICE_ONEDNN
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include <sluice/operator/library/cache.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

/// A oneDNN primitive, how its arguments lie in memory, and the scratch it needs.
struct OnednnPlan {
  dnnl::primitive primitive;
  dnnl::memory::desc source, weights, bias, destination;  // what the primitive wants, by its role
  dnnl::memory::desc scratch;
};

/// oneDNN's engine and the primitives of one of our engines. Primitives remember their number of threads, so it is
/// part of every key.
class Onednn {
 public:
  explicit Onednn(Engine&) : engine(dnnl::engine::kind::cpu, 0), plans(512) {}
  static Onednn& of(const Queue& queue) { return queue.engine().extension<Onednn>(); }

  dnnl::engine engine;
  LibraryCache<OnednnPlan> plans;
};

/// Runs a oneDNN call on the threads that the task was granted; its exceptions become our Error naming `op`.
void run_onednn(const char* op, const Queue& queue, const OnednnPlan& plan, std::unordered_map<int, dnnl::memory> args);

/// Copies between layouts of one tensor.
void reorder_onednn(const Queue& queue, dnnl::memory from, dnnl::memory to);

}  // namespace sluice::detail
#endif
