#include <deque>

#include <sluice/operator/linalg/steps_gpu.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

/// All matrices at once; its scratch memory goes back with what the body enqueued pending on it.
class StepsOnGpu final : public MatrixSteps {
 public:
  explicit StepsOnGpu(const KernelCall& call)
      : MatrixSteps(call), step_{call.queue, dtype(), matrices_of(call.inputs[0].shape)} {}

  std::int64_t count() const noexcept override { return step_.count; }
  void place(const Placement& placement) override { place_gpu(step_, placement); }
  void find_bad(const void* matrices, std::int64_t each, int* bad) override {
    find_bad_gpu(step_, matrices, each, bad);
  }
  void find_zero(const void* matrices, std::int64_t n, int* found) override {
    find_zero_gpu(step_, matrices, n, found);
  }
  void determinants(const Determinants& wanted) override { determinants_gpu(step_, wanted); }
  void refuse(const int* info, FaultCode code) override { refuse_gpu(step_, info, code); }

  void potrf(std::int64_t n, void* a, int* info) override {
    (n <= k_small_matrix ? small_potrf_gpu : solver_potrf)(step_, n, a, info);
  }
  void trsm(bool upper, bool transposed, bool unit_diagonal, std::int64_t m, std::int64_t n, const void* a, void* b)
      override {
    (n <= k_small_matrix ? small_trsm_gpu : solver_trsm)(step_, upper, transposed, unit_diagonal, m, n, a, b);
  }
  void getrf(std::int64_t n, void* a, std::int64_t* pivots, int* info) override {
    (n <= k_small_matrix ? small_getrf_gpu : solver_getrf)(step_, n, a, pivots, info);
  }
  void getrs(bool transposed, std::int64_t n, std::int64_t columns, const void* a, const std::int64_t* pivots, void* b)
      override {
    (n <= k_small_matrix ? small_getrs_gpu : solver_getrs)(step_, transposed, n, columns, a, pivots, b);
  }
  void geqrf(std::int64_t m, std::int64_t n, void* a, void* tau) override { solver_geqrf(step_, m, n, a, tau); }
  void orgqr(std::int64_t m, std::int64_t n, std::int64_t k, void* a, const void* tau) override {
    solver_orgqr(step_, m, n, k, a, tau);
  }
  void gesvd(std::int64_t m, std::int64_t n, void* a, void* s, void* u, void* vt, int* info) override {
    solver_gesvd(step_, m, n, a, s, u, vt, info);
  }
  void syevd(std::int64_t n, void* a, void* w, int* info) override { solver_syevd(step_, n, a, w, info); }

 protected:
  void* scratch(std::int64_t bytes) override {
    return memory_.emplace_back(step_.queue, static_cast<std::size_t>(bytes)).data();
  }

 private:
  GpuStep step_;
  std::deque<Workspace> memory_;
};

}  // namespace

void run_on_gpu(const KernelCall& call, Decomposition decomposition) {
  require_solver(call.op.name);
  StepsOnGpu steps(call);
  decomposition(steps);
}

}  // namespace sluice::detail
