#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/api.h>

namespace samples {

struct CholeskySettings {
  sluice::Device device;
  int size = 0, tile = 0;  // 0: what suits the device
  int rows = 0;            // GPU: tiles that one product works on, 0 = a column
  int workers = 0, repeats = 3;
  bool priority = false, indefinite = false;
  unsigned seed = 1;
};

/// Where the matrix lies and who factors it: the same program runs on the CPU and on a GPU.
class Place {
 public:
  virtual ~Place() = default;
  /// Puts the matrix there; not timed.
  virtual void load(const std::vector<double>& matrix) = 0;
  /// Factors it, in tiles on the engine or whole by the library, and waits.
  virtual void factor_tiled() = 0;
  virtual void factor_whole() = 0;
  virtual std::vector<double> result() = 0;
  virtual std::string library() const = 0;
};

std::unique_ptr<Place> make_cpu_place(sluice::Engine& engine, const CholeskySettings& settings);
/// In builds with CUDA, cuBLAS and cuSOLVER only.
std::unique_ptr<Place> make_gpu_place(sluice::Engine& engine, const CholeskySettings& settings);

}  // namespace samples
