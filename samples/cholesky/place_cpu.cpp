#include <chrono>
#include <thread>

#include "samples/cholesky/factor.h"
#include "samples/cholesky/place.h"

namespace samples {

using namespace sluice;

namespace {

class CpuPlace final : public Place {
 public:
  CpuPlace(Engine& engine, const CholeskySettings& settings) : engine_(engine), settings_(settings) {}

  void load(const std::vector<double>& matrix) override {
    matrix_ = matrix;
    // OpenBLAS's own threads spin for a while after a call; then they would compete with the tasks.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  void factor_tiled() override {
    set_blas_threads(1);
    push_cholesky(engine_, {matrix_.data(), settings_.size}, settings_.tile, settings_.priority);
    engine_.wait_all();
  }
  void factor_whole() override {
    set_blas_threads(engine_.workers());
    whole_cholesky({matrix_.data(), settings_.size});
  }
  std::vector<double> result() override { return matrix_; }
  std::string library() const override { return "OpenBLAS dpotrf"; }

 private:
  Engine& engine_;
  CholeskySettings settings_;
  std::vector<double> matrix_;
};

}  // namespace

std::unique_ptr<Place> make_cpu_place(Engine& engine, const CholeskySettings& settings) {
  return std::make_unique<CpuPlace>(engine, settings);
}

}  // namespace samples
