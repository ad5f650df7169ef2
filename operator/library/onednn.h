#pragma once

#ifdef SLUICE_ONEDNN
#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sluice/operator/library/cache.h>
#include <sluice/operator/library/onednn_calls.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

/// Whether oneDNN is there. The first call loads it; if it cannot be, that is said once on standard error, with `op` as
/// who asked.
bool has_onednn(const char* op);

/// How a tensor lies in our memory and in the layout that a primitive wants, and the copy between the two.
struct OnednnLayout {
  OnednnLayout() = default;
  OnednnLayout(const dnnl::engine& engine, dnnl::memory::desc ours, dnnl::memory::desc wanted, bool is_output);

  dnnl::memory::desc ours, wanted;
  dnnl::reorder copy;  // empty if both are the same
  bool same = true;
};

/// A oneDNN primitive, the layouts of its tensors and the scratch it needs.
struct OnednnPlan {
  dnnl::primitive primitive;
  OnednnLayout x, weight, y;
  dnnl::memory::desc bias;
  dnnl::memory::desc scratch;
  bool usable = true;  // false: oneDNN has no implementation, our own takes the call
};

/// make()'s plan, or one that is not usable where oneDNN refuses.
template <class Make>
std::shared_ptr<const OnednnPlan> onednn_plan(Make&& make) {
  OnednnPlan plan;
  try {
    plan = make();
  } catch (const dnnl::error&) {
    plan = {};
    plan.usable = false;
  }
  return std::make_shared<const OnednnPlan>(std::move(plan));
}

/// The type of that name; undef for one that oneDNN does not have.
dnnl::memory::data_type onednn_type(DType dtype) noexcept;

/// Whether oneDNN has instructions of this machine for products of that type, added up in float32: asked of the
/// library, which an environment variable may have told of fewer. Those of bfloat16 take denormals for zero, so a
/// thread that keeps them does without.
bool onednn_computes(DType dtype) noexcept;

/// About how many times as many products of that type as of float32 these do in the same time.
double onednn_pace(DType dtype) noexcept;

/// Whether a description is one to run: oneDNN's plain loops over half types are slower than floats in its kernels.
template <class Description>
bool onednn_is_worth(const Description& description, DType dtype) {
  return dtype == DType::float32 || std::string_view(description.impl_info_str()).find("ref") != 0;
}

/// A primitive's description from what it computes: by value with oneDNN 2, at once with oneDNN 3.
template <class Primitive, class... What>
typename Primitive::primitive_desc onednn_describe(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes, const What&... what) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, what..., attributes);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(what...), attributes, engine);
#endif
}

/// The same of a backward pass, which needs the description of its forward pass.
template <class Primitive, class Hint, class... What>
typename Primitive::primitive_desc onednn_describe_backward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes, const Hint& forward, const What&... what) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, what..., forward, attributes);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(what...), attributes, engine, forward);
#endif
}

/// oneDNN's engine and the primitives of one of our engines. Primitives remember their number of threads: it is always
/// one (pieces.h), because how they sum up follows it.
class Onednn {
 public:
  explicit Onednn(Engine&) : engine(dnnl::engine::kind::cpu, 0), plans(512) {}
  static Onednn& of(const Queue& queue) { return queue.engine().extension<Onednn>(); }

  dnnl::engine engine;
  LibraryCache<OnednnPlan> plans;
};

/// One execution of a plan inside a task, on the calling thread alone. Tensors whose layout differs pass through
/// scratch memory. Errors of oneDNN become our Error, naming `op`. run() holds back this thread's signals meanwhile.
class OnednnCall {
 public:
  OnednnCall(const char* op, const Queue& queue, const OnednnPlan& plan);
  void input(int argument, const OnednnLayout& layout, void* data);
  void output(int argument, const OnednnLayout& layout, void* data);
  void plain(int argument, const dnnl::memory::desc& description, void* data);
  /// `finish` is done to all floats of the outputs that are to be copied, before they are: what stands between rows of
  /// theirs too.
  void run(void (*finish)(float* result, std::int64_t n) = nullptr);

 private:
  struct CopyBack {
    const OnednnLayout* layout;
    dnnl::memory from, to;
    void* data;  // of `from`
  };
  dnnl::memory scratch_memory(const dnnl::memory::desc& description);

  const char* op_;
  const Queue& queue_;
  const OnednnPlan& plan_;
  Onednn& library_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::vector<CopyBack> copies_;
  std::deque<Workspace> scratch_;
};

}  // namespace sluice::detail
#endif
