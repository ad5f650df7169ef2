// DLPack through the C interface: both structs, both ways, and every way to ask for it wrongly.
#include <string>
#include <vector>

#include <sluice/c_api.h>

#include "tests/operator/dlpack_producer.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<float> read(sluice_array_t array, std::size_t size) {
  std::vector<float> values(size, -1);
  REQUIRE(sluice_array_read(array, values.data(), size * sizeof(float)) == SLUICE_OK);
  return values;
}

}  // namespace

TEST_CASE("The C interface takes foreign tensors and gives its own", "[dlpack][c_api]") {
  PlainProducer plain({2, 2}, {1, 2}, 4);
  VersionedProducer versioned({2}, {1}, 2);
  versioned.tensor.flags = detail::k_dlpack_read_only;
  sluice_array_t a = nullptr, b = nullptr;
  REQUIRE(sluice_from_dlpack(&plain.tensor, 0, &a) == SLUICE_OK);
  REQUIRE(sluice_from_dlpack_versioned(&versioned.tensor, 0, &b) == SLUICE_OK);
  CHECK(read(a, 4) == std::vector<float>{0, 2, 1, 3});
  const float values[2] = {7, 8};
  CHECK(sluice_array_write(b, values, sizeof(values)) == SLUICE_VALUE_ERROR);
  DLManagedTensor* out = nullptr;
  DLManagedTensorVersioned *shared = nullptr, *copied = nullptr;
  REQUIRE(sluice_to_dlpack(a, 0, 0, &out) == SLUICE_OK);
  REQUIRE(sluice_to_dlpack_versioned(b, -1, SLUICE_DLPACK_READ_ONLY, &shared) == SLUICE_OK);
  REQUIRE(sluice_to_dlpack_versioned(b, 0, SLUICE_DLPACK_COPY, &copied) == SLUICE_OK);
  CHECK(out->dl_tensor.data == plain.memory.data());
  CHECK(out->dl_tensor.strides[1] == 2);
  CHECK(shared->flags == detail::k_dlpack_read_only);
  CHECK(copied->flags == detail::k_dlpack_copied);
  CHECK(static_cast<float*>(copied->dl_tensor.data)[1] == 1);
  sluice_array_release(a);
  sluice_array_release(b);
  CHECK(plain.returned == 0);
  out->deleter(out);
  shared->deleter(shared);
  copied->deleter(copied);
  CHECK(plain.came_back(1));
  CHECK(versioned.came_back(1));
}

TEST_CASE("The C interface gives a refused tensor back, and says why", "[dlpack][c_api]") {
  PlainProducer plain({2}, {-1}, 2);
  VersionedProducer versioned({2}, {1}, 2);
  versioned.tensor.version.major = 9;
  sluice_array_t made = nullptr;
  CHECK(sluice_from_dlpack(&plain.tensor, 0, &made) == SLUICE_UNSUPPORTED);
  CHECK(std::string(sluice_error_message()).find("sluice_from_dlpack: from_dlpack: strides") == 0);
  CHECK(sluice_from_dlpack_versioned(&versioned.tensor, 0, &made) == SLUICE_UNSUPPORTED);
  CHECK(made == nullptr);
  CHECK(plain.returned == 1);
  CHECK(versioned.returned == 1);
  plain.strides[0] = 1;
  CHECK(sluice_from_dlpack(&plain.tensor, 0, nullptr) == SLUICE_VALUE_ERROR);
  CHECK(plain.returned == 2);
  CHECK(sluice_from_dlpack(&plain.tensor, 5, &made) == SLUICE_VALUE_ERROR);
  CHECK(plain.returned == 3);
  CHECK(sluice_from_dlpack(nullptr, 0, &made) == SLUICE_VALUE_ERROR);
  DLManagedTensor* out = nullptr;
  CHECK(sluice_to_dlpack(nullptr, 0, 0, &out) == SLUICE_VALUE_ERROR);
  REQUIRE(sluice_from_dlpack(&plain.tensor, 0, &made) == SLUICE_OK);
  CHECK(sluice_to_dlpack(made, 0, 4, &out) == SLUICE_VALUE_ERROR);
  CHECK(sluice_to_dlpack(made, 0, 0, nullptr) == SLUICE_VALUE_ERROR);
  CHECK(out == nullptr);
  sluice_array_release(made);
  CHECK(plain.came_back(4));
}
