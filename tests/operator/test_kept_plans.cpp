// Plans that cuDNN compiles, kept on disk.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <sluice/operator/fused/kept_code.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/with_tf32.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
namespace fs = std::filesystem;

namespace {

using Files = std::map<fs::path, fs::file_time_type>;

Files files_in(const fs::path& folder) {
  Files files;
  if (fs::exists(folder)) {
    for (const auto& entry : fs::directory_iterator(folder))
      files.emplace(entry.path(), entry.last_write_time());
  }
  return files;
}

// The first line of a file says how long the key behind it is.
std::string key_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string word;
  std::size_t size = 0;
  file >> word >> word >> word >> size;
  std::getline(file, word);
  std::string key(size, ' ');
  file.read(key.data(), static_cast<std::streamsize>(size));
  return key;
}

// Another engine has no plan in memory.
std::vector<float> convolved(const NDArray& x, const NDArray& w) {
  Engine engine;
  const EngineScope scope(engine);
  const auto here = [](const NDArray& of) { return array(of.to_vector<float>(), of.shape()).to(gpu()); };
  const ConvolutionEpilogue then{.shift = full({w.shape()[0]}, 0.25, {.dtype = float32}).to(gpu())};
  const NDArray y = convolution_fused(here(x), here(w), then, {.pad = {1, 1}, .activation = "relu"});
  return y.astype(float32).to(cpu()).to_vector<float>();
}

}  // namespace

TEST_CASE(
    "A plan that cuDNN compiled is read from disk, and made again where that is spoilt", "[conv][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 tensor_cores;  // half types, and outputs in whole 32s, have kernels of ours
  const fs::path folder = fused::KeptCode::plans_of_process().file_of("").parent_path();
  if (folder.empty())
    SLUICE_SKIP("SLUICE_PLAN_CACHE is empty: nothing is kept");
  const Files before = files_in(folder);
  const std::int64_t rows = 16 + getpid() % 4096;  // a problem that no process has had before
  const NDArray x = random_array({2, 32, rows, 8}, 1, -1, 1, float32),
                w = random_array({60, 32, 3, 3}, 2, -1, 1, float32);
  const std::vector<float> made = convolved(x, w);
  Files fresh = files_in(folder);
  for (const auto& [path, time] : before)
    fresh.erase(path);
  REQUIRE(fresh.size() >= 1);

  CHECK(convolved(x, w) == made);
  for (const auto& [path, time] : fresh)
    CHECK(fs::last_write_time(path) == time);  // read, not written again

  std::vector<std::string> keys;
  for (const auto& [path, time] : fresh) {
    keys.push_back(key_in(path));
    fs::resize_file(path, fs::file_size(path) / 2);
  }
  CHECK(convolved(x, w) == made);
  for (const auto& [path, time] : fresh)
    CHECK(fs::last_write_time(path) != time);

  for (const std::string& key : keys)
    fused::KeptCode::plans_of_process().keep(key, "{}");  // a whole file of what is no plan
  CHECK(convolved(x, w) == made);
  for (const auto& [path, time] : fresh) {
    CHECK(fs::file_size(path) > 1000);
    fs::remove(path);
  }
}
