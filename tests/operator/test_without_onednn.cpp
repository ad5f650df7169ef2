// The program of these cases is linked without what calls oneDNN, beside those of products, convolutions and pooling.
#include <fstream>
#include <string>

#include <sluice/operator/api.h>
#include <sluice/operator/library/one_thread.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

bool is_mapped(const std::string& part_of_name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string word; maps >> word;) {
    if (word.find(part_of_name) != std::string::npos)
      return true;
  }
  return false;
}

}  // namespace

TEST_CASE("A build without oneDNN has kernels of its own, and looks for no library and no team") {
  const NDArray x = ones({40, 30}), image = ones({2, 3, 9, 9}), weight = ones({4, 3, 3, 3});
  CHECK(matmul(x, x.T()).to_vector<float>()[0] == 30);
  CHECK(dense(x, ones({7, 30}), {}, {}).to_vector<float>()[0] == 30);
  CHECK(convolution(image, weight, {}, {}).to_vector<float>()[0] == 27);
  CHECK_FALSE(is_mapped("libdnnl"));
  CHECK_FALSE(is_mapped("libgomp"));
}
