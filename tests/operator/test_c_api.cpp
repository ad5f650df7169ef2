// The C interface: what C++ does with arrays, operators and the tape, and every way to ask for it wrongly.
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sluice/c_api.h>
#include <sluice/operator/api.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

/// Releases what it holds.
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { sluice_array_release(handle_); }

  sluice_array_t get() const { return handle_; }
  sluice_array_t* out() { return &handle_; }

 private:
  sluice_array_t handle_ = nullptr;
};

void make(Handle& handle, const std::vector<float>& values, const std::vector<std::int64_t>& shape) {
  const int ndim = static_cast<int>(shape.size());
  REQUIRE(sluice_array_create(values.data(), "float32", ndim, shape.data(), "cpu", handle.out()) == SLUICE_OK);
}

std::vector<float> read(sluice_array_t array, std::size_t size) {
  std::vector<float> values(size, -1);
  REQUIRE(sluice_array_read(array, values.data(), size * sizeof(float)) == SLUICE_OK);
  return values;
}

sluice_status call(const char* op, const std::vector<sluice_array_t>& inputs, const char* attributes, Handle& result) {
  std::size_t count = 0;
  return sluice_invoke(op, inputs.data(), inputs.size(), attributes, result.out(), 1, &count);
}

std::string said() {
  return sluice_error_message();
}

}  // namespace

TEST_CASE("The C interface makes, describes, writes and reads arrays", "[c_api]") {
  CHECK(sluice_c_api_version() == SLUICE_C_API_VERSION);
  CHECK(sluice_num_gpus() == num_gpus());
  Handle a;
  make(a, {1, 2, 3, 4, 5, 6}, {2, 3});
  sluice_array_info info;
  REQUIRE(sluice_array_describe(a.get(), &info) == SLUICE_OK);
  CHECK(info.ndim == 2);
  CHECK((info.shape[0] == 2 && info.shape[1] == 3));
  CHECK((info.strides[0] == 3 && info.strides[1] == 1));
  CHECK((info.size == 6 && info.element_bytes == 4 && info.is_gpu == 0 && info.device_index == 0));
  CHECK(std::string(info.dtype) == "float32");

  Handle turned;
  REQUIRE(call("transpose", {a.get()}, "shape=(1, 0)", turned) == SLUICE_OK);
  CHECK(read(turned.get(), 6) == std::vector<float>{1, 4, 2, 5, 3, 6});
  const std::vector<float> other = {10, 20, 30, 40, 50, 60};
  REQUIRE(sluice_array_write(turned.get(), other.data(), sizeof(float) * 6) == SLUICE_OK);  // a view: `a` sees it
  CHECK(read(a.get(), 6) == std::vector<float>{10, 30, 50, 20, 40, 60});

  Handle number, nothing;
  make(number, {7}, {});
  CHECK(read(number.get(), 1) == std::vector<float>{7});
  make(nothing, {}, {0, 3});
  CHECK(sluice_array_read(nothing.get(), nullptr, 0) == SLUICE_OK);
  CHECK(sluice_array_write(nothing.get(), nullptr, 0) == SLUICE_OK);
  const std::int64_t shape[] = {4};
  Handle empty;
  CHECK(sluice_array_create(nullptr, "int8", 1, shape, "cpu(0)", empty.out()) == SLUICE_OK);
  CHECK(sluice_array_wait(empty.get()) == SLUICE_OK);
  CHECK(sluice_wait_all() == SLUICE_OK);
}

TEST_CASE("An array lives as long as one handle of the C interface", "[c_api]") {
  Handle second;
  {
    Handle first;
    make(first, {1, 2}, {2});
    *second.out() = sluice_array_retain(first.get());
  }
  CHECK(read(second.get(), 2) == std::vector<float>{1, 2});
  CHECK(sluice_array_retain(nullptr) == nullptr);
  sluice_array_release(nullptr);
}

TEST_CASE("The C interface calls operators by name, with attributes as text", "[c_api]") {
  Handle a, b, sum, total, parts[3];
  make(a, {1, 2, 3, 4, 5, 6}, {2, 3});
  make(b, {10, 20, 30}, {3});
  REQUIRE(call("add", {a.get(), b.get()}, nullptr, sum) == SLUICE_OK);
  CHECK(read(sum.get(), 6) == std::vector<float>{11, 22, 33, 14, 25, 36});
  REQUIRE(call("sum", {a.get()}, "axes=(1), keepdims=true", total) == SLUICE_OK);
  CHECK(read(total.get(), 2) == std::vector<float>{6, 15});

  // Several results; none; an operator's optional input.
  const sluice_array_t inputs[] = {a.get()};
  sluice_array_t two[2] = {};
  std::size_t count = 0;
  REQUIRE(sluice_invoke("topk", inputs, 1, "k=1, largest=true", two, 2, &count) == SLUICE_OK);
  CHECK(count == 2);
  CHECK(read(two[0], 2) == std::vector<float>{3, 6});
  sluice_array_release(two[0]);
  sluice_array_release(two[1]);

  std::set<std::string> names;
  const auto add = [](const char* name, void* to) { static_cast<std::set<std::string>*>(to)->insert(name); };
  REQUIRE(sluice_each_operator(add, &names) == SLUICE_OK);
  CHECK(names.size() == operators().size());
  CHECK(names.count("softmax") == 1);
}

TEST_CASE("The C interface records, differentiates, and ends its modes", "[c_api]") {
  Handle x, y, grad, none, off;
  make(x, {1, 2, 3}, {3});
  CHECK(sluice_grad(x.get(), none.out()) == SLUICE_OK);
  CHECK(none.get() == nullptr);
  REQUIRE(sluice_attach_grad(x.get()) == SLUICE_OK);
  sluice_mode_t outer = nullptr, inner = nullptr;
  REQUIRE(sluice_begin_mode(1, 1, &outer) == SLUICE_OK);
  CHECK((autograd::is_recording() && autograd::is_training()));
  REQUIRE(call("square", {x.get()}, "", y) == SLUICE_OK);
  REQUIRE(sluice_begin_mode(0, 1, &inner) == SLUICE_OK);
  CHECK(!autograd::is_recording());
  sluice_end_mode(inner);
  CHECK(autograd::is_recording());
  sluice_end_mode(outer);
  CHECK((!autograd::is_recording() && !autograd::is_training()));
  sluice_end_mode(nullptr);

  // Returned, and of these once more.
  const sluice_array_t heads[] = {y.get()}, variables[] = {x.get()};
  Handle first, second;
  REQUIRE(sluice_gradients(heads, nullptr, 1, variables, 1, 1, first.out()) == SLUICE_OK);
  CHECK(read(first.get(), 3) == std::vector<float>{2, 4, 6});
  const sluice_array_t of_first[] = {first.get()};
  REQUIRE(sluice_gradients(of_first, nullptr, 1, variables, 1, 0, second.out()) == SLUICE_OK);
  CHECK(read(second.get(), 3) == std::vector<float>{2, 2, 2});

  // Stored, with head gradients.
  Handle weights;
  make(weights, {1, 10, 100}, {3});
  const sluice_array_t head_grads[] = {weights.get()};
  REQUIRE(sluice_backward(heads, head_grads, 1, 1) == SLUICE_OK);  // and the tape stays
  REQUIRE(sluice_backward(heads, head_grads, 1, 0) == SLUICE_OK);
  CHECK(sluice_backward(heads, head_grads, 1, 0) == SLUICE_AUTOGRAD_ERROR);
  REQUIRE(sluice_grad(x.get(), grad.out()) == SLUICE_OK);
  CHECK(read(grad.get(), 3) == std::vector<float>{2, 40, 600});
  REQUIRE(sluice_detach(y.get(), off.out()) == SLUICE_OK);
  const sluice_array_t detached[] = {off.get()};
  CHECK(sluice_backward(detached, nullptr, 1, 0) == SLUICE_AUTOGRAD_ERROR);
}

TEST_CASE("What is asked of the C interface wrongly is a status and a message", "[c_api]") {
  Handle a, b, kept;
  make(a, {1, 2, 3}, {3});
  make(b, {1, 2}, {2});
  make(kept, {5}, {1});
  const sluice_array_t before = kept.get();
  CHECK(call("add", {a.get(), b.get()}, "", kept) == SLUICE_SHAPE_ERROR);
  CHECK(said().rfind("sluice_invoke: add", 0) == 0);
  CHECK(said().find("(2") != std::string::npos);
  CHECK(kept.get() == before);
  CHECK(call("no_such", {a.get()}, "", kept) == SLUICE_VALUE_ERROR);
  CHECK(said() == "sluice_invoke: there is no operator \"no_such\"");
  CHECK(call("sum", {a.get()}, "axis=(1)", kept) == SLUICE_VALUE_ERROR);  // axes is its name
  CHECK(call("sum", {a.get()}, "axes=(1", kept) == SLUICE_VALUE_ERROR);
  CHECK(call("sum", {a.get()}, "axes=(1)", kept) == SLUICE_INDEX_ERROR);
  CHECK(call("add", {nullptr, a.get()}, "", kept) == SLUICE_VALUE_ERROR);
  CHECK(call(nullptr, {}, "", kept) == SLUICE_VALUE_ERROR);
  CHECK(said() == "sluice_invoke: the operator's name is NULL");

  const sluice_array_t inputs[] = {a.get()};
  sluice_array_t one[1] = {};
  std::size_t count = 9;
  CHECK(sluice_invoke("topk", inputs, 1, "k=1", one, 1, &count) == SLUICE_VALUE_ERROR);
  CHECK((count == 9 && one[0] == nullptr));
  CHECK(sluice_invoke("square", inputs, 1, "", one, 1, nullptr) == SLUICE_VALUE_ERROR);
  CHECK(sluice_invoke("square", nullptr, 1, "", one, 1, &count) == SLUICE_VALUE_ERROR);
  CHECK(sluice_invoke("square", inputs, 1, "", nullptr, 0, &count) == SLUICE_VALUE_ERROR);

  const std::int64_t shape[] = {2}, negative[] = {-2};
  sluice_array_t out = nullptr;
  CHECK(sluice_array_create(nullptr, "float31", 1, shape, "cpu", &out) == SLUICE_DTYPE_ERROR);
  CHECK(sluice_array_create(nullptr, "float32", 1, shape, "tpu", &out) == SLUICE_VALUE_ERROR);
  CHECK(sluice_array_create(nullptr, "float32", 1, shape, "gpu(99)", &out) == SLUICE_DEVICE_ERROR);
  CHECK(sluice_array_create(nullptr, "float32", 9, shape, "cpu", &out) == SLUICE_SHAPE_ERROR);
  CHECK(sluice_array_create(nullptr, "float32", -1, shape, "cpu", &out) == SLUICE_SHAPE_ERROR);
  CHECK(sluice_array_create(nullptr, "float32", 1, negative, "cpu", &out) != SLUICE_OK);
  CHECK(sluice_array_create(nullptr, "float32", 1, nullptr, "cpu", &out) == SLUICE_VALUE_ERROR);
  CHECK(sluice_array_create(nullptr, nullptr, 1, shape, "cpu", &out) == SLUICE_VALUE_ERROR);
  CHECK(sluice_array_create(nullptr, "float32", 1, shape, "cpu", nullptr) == SLUICE_VALUE_ERROR);
  CHECK(out == nullptr);

  float values[4] = {};
  CHECK(sluice_array_read(a.get(), values, 16) == SLUICE_SHAPE_ERROR);
  CHECK(said().find("12 bytes, not 16") != std::string::npos);
  CHECK(sluice_array_read(a.get(), nullptr, 12) == SLUICE_VALUE_ERROR);
  CHECK(sluice_array_write(a.get(), values, 8) == SLUICE_SHAPE_ERROR);
  CHECK(sluice_array_describe(nullptr, nullptr) == SLUICE_VALUE_ERROR);
  CHECK(sluice_array_wait(nullptr) == SLUICE_VALUE_ERROR);
  CHECK(sluice_begin_mode(1, 1, nullptr) == SLUICE_VALUE_ERROR);
  CHECK(sluice_each_operator(nullptr, nullptr) == SLUICE_VALUE_ERROR);
}

TEST_CASE("Errors of tasks and messages of threads come through the C interface apart", "[c_api]") {
  // An index out of range is found when the kernel runs: the array that it wrote gives the error, each time.
  Handle table, places, taken;
  make(table, {1, 2, 3}, {3});
  const std::int32_t numbers[] = {0, 7};
  const std::int64_t two[] = {2};
  REQUIRE(sluice_array_create(numbers, "int32", 1, two, "cpu", places.out()) == SLUICE_OK);
  REQUIRE(call("take", {table.get(), places.get()}, "axis=0, mode=0", taken) == SLUICE_OK);
  float values[2] = {};
  CHECK(sluice_array_read(taken.get(), values, sizeof values) == SLUICE_INDEX_ERROR);
  CHECK(sluice_array_wait(taken.get()) == SLUICE_INDEX_ERROR);
  const std::string here = said();
  std::thread([] {
    CHECK(said().empty());
    CHECK(sluice_array_wait(nullptr) == SLUICE_VALUE_ERROR);
    CHECK(said() == "sluice_array_wait: the array is NULL");
  }).join();
  CHECK(said() == here);
}

TEST_CASE("Arrays of the C interface go to a GPU and back", "[c_api][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::vector<float> values = {1, 2, 3};
  const std::int64_t shape[] = {3};
  Handle a, squared;
  REQUIRE(sluice_array_create(values.data(), "float32", 1, shape, "gpu(0)", a.out()) == SLUICE_OK);
  sluice_array_info info;
  REQUIRE(sluice_array_describe(a.get(), &info) == SLUICE_OK);
  CHECK((info.is_gpu == 1 && info.device_index == 0));
  REQUIRE(call("square", {a.get()}, "", squared) == SLUICE_OK);
  CHECK(read(squared.get(), 3) == std::vector<float>{1, 4, 9});
}
