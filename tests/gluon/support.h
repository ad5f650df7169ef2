#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <sluice/sluice.h>

#include "tests/support/catch.h"

namespace sluice::test {

using gluon::Parameter;
using gluon::ParameterDict;
using gluon::Trainer;
using gluon::loss::L2Loss;
using gluon::loss::SoftmaxCrossEntropyLoss;
using gluon::optimizer::Adam;
using gluon::optimizer::Optimizer;
using gluon::optimizer::SGD;

/// A folder that is gone when the test is over.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& within = std::filesystem::temp_directory_path()) {
    std::string pattern = (within / "sluice-gluon-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// In memory where there is such a place, for tests that write many files which nobody needs after a power cut.
inline std::filesystem::path quick_folder() {
  return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

inline std::vector<float> values(const NDArray& array) {
  return array.to_vector<float>();
}

inline void check_near(const std::vector<float>& found, const std::vector<float>& expected, double tolerance = 1e-5) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("element " << i);
    CHECK(found[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

/// Numbers that look random, the same on every run: (i * 37 % 101 - 50) / 25.
inline std::vector<float> pattern(std::int64_t n, int start = 0) {
  std::vector<float> made(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    made[static_cast<std::size_t>(i)] = static_cast<float>((i + start) * 37 % 101 - 50) / 25.0f;
  return made;
}
inline NDArray pattern_array(const Shape& shape, int start = 0, Device device = cpu()) {
  return array(pattern(shape.size(), start), shape, device);
}

inline void write_file(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace sluice::test
