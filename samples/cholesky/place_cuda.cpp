#include "samples/cholesky/factor_cuda.h"
#include "samples/cholesky/place.h"

namespace samples {

using namespace sluice;

namespace {

class GpuPlace final : public Place {
 public:
  GpuPlace(Engine& engine, const CholeskySettings& settings)
      : engine_(engine),
        size_(settings.size),
        matrix_(settings.device, settings.size),
        tiled_(engine, settings.device, settings.size, {settings.tile, settings.rows, settings.priority}),
        whole_(settings.device, settings.size) {}

  void load(const std::vector<double>& matrix) override { matrix_.assign(matrix.data()); }
  void factor_tiled() override {
    tiled_.push(matrix_.data());
    engine_.wait_all();
  }
  void factor_whole() override {
    whole_.start(matrix_.data());
    whole_.wait();
  }
  std::vector<double> result() override {
    const auto rows = static_cast<std::size_t>(size_);
    std::vector<double> values(rows * rows);
    matrix_.read_out(values.data());
    return values;
  }
  std::string library() const override { return "cuSOLVER Xpotrf"; }

 private:
  Engine& engine_;
  int size_;
  GpuMatrix matrix_;
  GpuCholesky tiled_;
  WholeGpuCholesky whole_;
};

}  // namespace

std::unique_ptr<Place> make_gpu_place(Engine& engine, const CholeskySettings& settings) {
  return std::make_unique<GpuPlace>(engine, settings);
}

}  // namespace samples
