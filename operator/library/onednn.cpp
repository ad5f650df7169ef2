#ifdef SLUICE_ONEDNN
#include <atomic>
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <utility>

#include <sluice/engine/detail/float_mode.h>
#include <sluice/operator/library/one_thread.h>
#include <sluice/operator/library/onednn.h>
#include <sluice/operator/library/shared_library.h>

namespace sluice::detail {

using dnnl::memory;

namespace {

// Until version 3.11.1 kernels of oneDNN's products point the stack at their workspace (its issue 4845): the frame of a
// signal that comes then is written over the heap. Signals that tell of an instruction's own fault are not held.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigfillset(&held);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
      sigdelset(&held, fault);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

// Of a set that holds others, the bits of all of them.
bool has_instructions(dnnl_cpu_isa_t set) noexcept {
  return (dnnl::dnnl_get_effective_cpu_isa() & static_cast<unsigned>(set)) == static_cast<unsigned>(set);
}

}  // namespace

SharedLibrary& onednn_library() {
  static auto* const library = new SharedLibrary(
      {"oneDNN " SLUICE_TEXT(DNNL_VERSION_MAJOR),
       "libdnnl.so." SLUICE_TEXT(DNNL_VERSION_MAJOR),
       "oneDNN (libdnnl" SLUICE_TEXT(DNNL_VERSION_MAJOR) " on Debian and Ubuntu)"},
      [](const SharedLibrary& loaded) {
        for_each_onednn_call([&](const char* name, auto& pointer) { loaded.find(name, pointer); });
        find_openmp(loaded);
      });
  return *library;
}

bool has_onednn(const char* op) {
  if (onednn_library().load())
    return true;
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    std::fprintf(
        stderr,
        "sluice: %s: %s. Until then products and convolutions on the CPU use Sluice's own kernels, which are slower.\n",
        op,
        onednn_library().problem().c_str());
  return false;
}

memory::data_type onednn_type(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32:
      return memory::data_type::f32;
    case DType::bfloat16:
      return memory::data_type::bf16;
    case DType::float16:
      return memory::data_type::f16;
    default:
      return memory::data_type::undef;
  }
}

bool onednn_computes(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32:
      return true;
    case DType::bfloat16:
      return FloatMode::current().flushes() && has_instructions(dnnl_cpu_isa_avx512_core_bf16);
    case DType::float16:
#if DNNL_VERSION_MAJOR >= 3
      return has_instructions(dnnl_cpu_isa_avx512_core_fp16);
#endif
    default:
      return false;
  }
}

double onednn_pace(DType dtype) noexcept {
  if (dtype != DType::bfloat16)
    return 1;
  return has_instructions(dnnl_cpu_isa_avx512_core_amx) ? 8 : 2;
}

OnednnLayout::OnednnLayout(const dnnl::engine& engine, memory::desc ours, memory::desc wanted, bool is_output)
    : ours(std::move(ours)), wanted(std::move(wanted)), same(this->ours == this->wanted) {
  if (same)
    return;
  const memory::desc& from = is_output ? this->wanted : this->ours;
  const memory::desc& to = is_output ? this->ours : this->wanted;
  copy = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
}

OnednnCall::OnednnCall(const char* op, const Queue& queue, const OnednnPlan& plan)
    : op_(op), queue_(queue), plan_(plan), library_(Onednn::of(queue)), stream_(library_.engine) {
  if (plan.scratch.get_size() > 0)
    arguments_.emplace(DNNL_ARG_SCRATCHPAD, scratch_memory(plan.scratch));
}

memory OnednnCall::scratch_memory(const memory::desc& description) {
  return memory(description, library_.engine, scratch_.emplace_back(queue_, description.get_size()).data());
}

void OnednnCall::plain(int argument, const memory::desc& description, void* data) {
  arguments_.emplace(argument, memory(description, library_.engine, data));
}

void OnednnCall::input(int argument, const OnednnLayout& layout, void* data) {
  memory ours(layout.ours, library_.engine, data);
  if (layout.same) {
    arguments_.emplace(argument, std::move(ours));
    return;
  }
  memory wanted = scratch_memory(layout.wanted);
  layout.copy.execute(stream_, ours, wanted);
  arguments_.emplace(argument, std::move(wanted));
}

void OnednnCall::output(int argument, const OnednnLayout& layout, void* data) {
  memory ours(layout.ours, library_.engine, data);
  if (layout.same) {
    arguments_.emplace(argument, std::move(ours));
    return;
  }
  memory wanted = scratch_memory(layout.wanted);
  copies_.push_back({&layout, wanted, std::move(ours), scratch_.back().data()});
  arguments_.emplace(argument, std::move(wanted));
}

void OnednnCall::run(void (*finish)(float* result, std::int64_t n)) {
  try {
    const SignalsHeld held;
    plan_.primitive.execute(stream_, arguments_);
    for (CopyBack& back : copies_) {
      if (finish != nullptr)
        finish(
            static_cast<float*>(back.data), static_cast<std::int64_t>(back.layout->wanted.get_size() / sizeof(float)));
      back.layout->copy.execute(stream_, back.from, back.to);
    }
  } catch (const dnnl::error& error) {
    throw Error(message(op_, ": oneDNN says ", error.what()));
  }
}

}  // namespace sluice::detail
#endif
