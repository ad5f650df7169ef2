// Files of parameters in MXNet's and Hugging Face's formats: what these wrote is read, what is written they read
// (checked once by them; here byte by byte), and files that lie are refused.
#include <cstring>
#include <random>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::gluon::formats;

namespace {

using Bytes = std::vector<std::uint8_t>;

// mx.nd.save of MXNet 1.9.1: {"arg:w": float32 (1, 3), "aux:n": int64 (2,)}; a list of one float16 (1, 3); and with
// NumPy's shapes {"s": 2.5, "e": (0, 3), "b": bool (2,)}.
const std::string k_mxnet_named =
    "120100000000000000000000000000000200000000000000c9fa93f900000000020000000100000000000000030000000000000001000000"
    "00000000000000000000803f00000040000040c0c9fa93f90000000001000000020000000000000001000000000000000600000007000000"
    "00000000f8ffffffffffffff020000000000000005000000000000006172673a7705000000000000006175783a6e";
const std::string k_mxnet_list =
    "120100000000000000000000000000000100000000000000c9fa93f900000000020000000100000000000000030000000000000001000000"
    "0000000002000000003c004000c20000000000000000";
const std::string k_mxnet_numpy =
    "120100000000000000000000000000000300000000000000cafa93f900000000000000000100000000000000000000000000"
    "2040cafa93f9000000000200000000000000000000000300000000000000010000000000000000000000cafa93f9000000000100000002"
    "000000000000000100000000000000000000000000803f000000000300000000000000010000000000000073010000000000000065010000"
    "000000000062";
// safetensors 0.8: metadata, n: I64, e: F32 (0, 3), w: F32 (1, 3), s: F16 (), b: BOOL.
const std::string k_safetensors =
    "30010000000000007b225f5f6d657461646174615f5f223a7b2261223a2262227d2c226e223a7b226474797065223a22493634222c2273"
    "68617065223a5b325d2c22646174615f6f666673657473223a5b302c31365d7d2c2265223a7b226474797065223a22463332222c22736861"
    "7065223a5b302c335d2c22646174615f6f666673657473223a5b31362c31365d7d2c2277223a7b226474797065223a22463332222c227368"
    "617065223a5b312c335d2c22646174615f6f666673657473223a5b31362c32385d7d2c2273223a7b226474797065223a22463136222c2273"
    "68617065223a5b5d2c22646174615f6f666673657473223a5b32382c33305d7d2c2262223a7b226474797065223a22424f4f4c222c227368"
    "617065223a5b325d2c22646174615f6f666673657473223a5b33302c33325d7d7d0700000000000000f8ffffffffffffff0000803f000000"
    "40000040c000410100";

// As their descriptions say: {"a": int16 (2,), "b": uint16 (1,), "c": uint32 (1,), "d": uint64 (1,)}.
const std::string k_mxnet_integers =
    "120100000000000000000000000000000400000000000000c9fa93f900000000010000000200000000000000010000000000000008000000"
    "00800700c9fa93f900000000010000000100000000000000010000000000000009000000ffffc9fa93f90000000001000000010000000000"
    "000001000000000000000a000000005ed0b2c9fa93f90000000001000000010000000000000001000000000000000b000000000000000000"
    "00800400000000000000010000000000000061010000000000000062010000000000000063010000000000000064";
const std::string k_safetensors_integers =
    "d8000000000000007b2261223a7b226474797065223a22493136222c227368617065223a5b325d2c22646174615f6f666673657473223a5b"
    "302c345d7d2c2262223a7b226474797065223a22553136222c227368617065223a5b315d2c22646174615f6f666673657473223a5b342c36"
    "5d7d2c2263223a7b226474797065223a22553332222c227368617065223a5b315d2c22646174615f6f666673657473223a5b362c31305d7d"
    "2c2264223a7b226474797065223a22553634222c227368617065223a5b315d2c22646174615f6f666673657473223a5b31302c31385d7d7d"
    "00800700ffff005ed0b20000000000000080";

Bytes bytes_of(const std::string& digits) {
  Bytes bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

void check_array(const NDArray& array, DType dtype, const Shape& shape, const std::vector<double>& values) {
  CHECK(array.dtype() == dtype);
  CHECK(array.shape() == shape);
  CHECK(array.astype(float64).to_vector<double>() == values);
}

std::string error_of(const std::filesystem::path& path) {
  try {
    load_any(path);
  } catch (const FileError& error) {
    CHECK(std::string(error.what()).find(path.string()) == 0);
    return error.what();
  }
  return "";
}

/// Arrays of every type and some shapes.
NamedArrays all_types() {
  NamedArrays arrays;
  for (const DType dtype :
       {bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64}) {
    for (const Shape& shape : {Shape{2, 3}, Shape{5}, Shape{}, Shape{0, 4}, Shape{1, 1, 2, 1}})
      arrays.emplace_back(message(dtype, shape), random_array(shape, arrays.size(), 0, 9, dtype));
  }
  return arrays;
}

void check_same(const NamedArrays& found, const NamedArrays& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(wanted[i].first);
    CHECK(found[i].first == wanted[i].first);
    const NDArray& array = wanted[i].second;
    check_array(found[i].second, array.dtype(), array.shape(), array.astype(float64).to_vector<double>());
  }
}

}  // namespace

TEST_CASE("Files that MXNet wrote are read, whatever their names", "[gluon][formats]") {
  const TemporaryFolder folder;
  write_file(folder / "named", bytes_of(k_mxnet_named));
  NamedArrays found = load_any(folder / "named");
  REQUIRE(found.size() == 2);
  CHECK(found[0].first == "w");
  check_array(found[0].second, float32, {1, 3}, {1, 2, -3});
  CHECK(found[1].first == "n");
  check_array(found[1].second, int64, {2}, {7, -8});
  write_file(folder / "list.npz", bytes_of(k_mxnet_list));
  found = load_any(folder / "list.npz");
  REQUIRE(found.size() == 1);
  CHECK(found[0].first == "0");
  check_array(found[0].second, float16, {1, 3}, {1, 2, -3});
  write_file(folder / "numpy.params", bytes_of(k_mxnet_numpy));
  found = load_mxnet(folder / "numpy.params");
  REQUIRE(found.size() == 3);
  check_array(found[0].second, float32, {}, {2.5});
  check_array(found[1].second, float32, {0, 3}, {});
  CHECK(found[2].first == "b");
}

TEST_CASE("Files of MXNet before 1.0 are read", "[gluon][formats]") {
  const TemporaryFolder folder;
  // The number of axes, extents of 32 bits, device, type, values.
  write_file(
      folder / "old.params",
      bytes_of("120100000000000000000000000000000100000000000000"
               "020000000200000001000000"
               "0200000000000000"
               "04000000"
               "05000000fbffffff"
               "0100000000000000"
               "010000000000000061"));
  const NamedArrays found = load_any(folder / "old.params");
  REQUIRE(found.size() == 1);
  check_array(found[0].second, int32, {2, 1}, {5, -5});
  // And the kind between: extents of 64 bits, no kind of storage.
  write_file(
      folder / "between.params",
      bytes_of("120100000000000000000000000000000100000000000000"
               "c8fa93f9010000000200000000000000"
               "0100000000000000"
               "03000000"
               "07ff"
               "0000000000000000"));
  check_array(load_any(folder / "between.params")[0].second, uint8, {2}, {7, 255});
}

TEST_CASE("Files of safetensors are read, in the order of their values", "[gluon][formats]") {
  const TemporaryFolder folder;
  write_file(folder / "model", bytes_of(k_safetensors));
  const NamedArrays found = load_any(folder / "model");
  REQUIRE(found.size() == 5);
  CHECK(found[0].first == "n");
  check_array(found[0].second, int64, {2}, {7, -8});
  check_array(found[1].second, float32, {0, 3}, {});
  check_array(found[2].second, float32, {1, 3}, {1, 2, -3});
  check_array(found[3].second, float16, {}, {2.5});
  check_array(found[4].second, bool_, {2}, {1, 0});
}

TEST_CASE("Integers of all widths are read and written as they are", "[gluon][formats]") {
  const TemporaryFolder folder;
  for (const auto& [name, digits] :
       {std::pair{"a.params", k_mxnet_integers}, std::pair{"a.safetensors", k_safetensors_integers}}) {
    write_file(folder / name, bytes_of(digits));
    const NamedArrays found = load_any(folder / name);
    check_array(found.at(0).second, int16, {2}, {-32768, 7});
    check_array(found[1].second, uint16, {1}, {65535});
    check_array(found[2].second, uint32, {1}, {3e9});
    check_array(found.at(3).second, uint64, {1}, {0x1p63});
    save_any(folder / name, found);
    std::ifstream file(folder / name, std::ios::binary);
    CHECK(Bytes(std::istreambuf_iterator<char>(file), {}) == bytes_of(digits));
  }
}

TEST_CASE("What is written is what is read, of every type and shape", "[gluon][formats]") {
  const TemporaryFolder folder;
  const NamedArrays arrays = all_types();
  for (const char* const name : {"a.params", "a.safetensors"}) {
    CAPTURE(name);
    save_any(folder / name, arrays);
    check_same(load_any(folder / name), arrays);
  }
  CHECK(load_mxnet(folder / "a.params").size() == arrays.size());
  CHECK_THROWS_AS(load_mxnet(folder / "a.safetensors"), FileError);
  CHECK_THROWS_AS(load_safetensors(folder / "a.params"), FileError);
  // NumPy's have another order.
  save_any(folder / "a.npz", arrays);
  CHECK(load_any(folder / "a.npz").size() == arrays.size());
  // A view, and nothing at all.
  const NDArray x = random_array({4, 6}, 1);
  for (const char* const name : {"view.params", "view.safetensors"}) {
    save_any(folder / name, {{"x", x.T().slice(0, 1, 6, 2)}});
    CHECK(values(load_any(folder / name)[0].second) == values(x.T().slice(0, 1, 6, 2)));
    save_any(folder / name, {});
    CHECK(load_any(folder / name).empty());
  }
  // To the byte as MXNet writes it.
  save_mxnet(folder / "same", {{"arg:w", array<float>({1, 2, -3}, {1, 3})}, {"aux:n", array<std::int64_t>({7, -8})}});
  std::ifstream file(folder / "same", std::ios::binary);
  CHECK(Bytes(std::istreambuf_iterator<char>(file), {}) == bytes_of(k_mxnet_named));
}

TEST_CASE("What cannot be written leaves the file that was there", "[gluon][formats]") {
  const TemporaryFolder folder;
  const NDArray x = ones({2});
  for (const char* const name : {"a.params", "a.safetensors", "a.npz"}) {
    save_any(folder / name, {{"x", x}});
    CHECK_THROWS_AS(save_any(folder / name, {{"x", x}, {"y", NDArray()}}), ValueError);
    CHECK(load_any(folder / name).size() == 1);
    CHECK_THROWS_AS(save_any(folder.path() / "none" / name, {{"x", x}}), FileError);
  }
  CHECK_THROWS_AS(save_any(folder / "b.safetensors", {{"x", x}, {"x", x}}), ValueError);
  CHECK_THROWS_AS(save_any(folder / "b.npz", {{"x", x}, {"x", x}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(folder / "b.safetensors", {{"__metadata__", x}}), ValueError);
  CHECK_FALSE(std::filesystem::exists(folder / "b.safetensors"));
}

TEST_CASE("Networks are saved and loaded as the name ends, or in the order of the file", "[gluon][formats]") {
  const TemporaryFolder folder;
  const auto network = [](std::uint64_t seed) {
    random::seed(seed);
    gluon::nn::Sequential net;
    net.add(gluon::nn::Dense(4, {.in_units = 3}), gluon::nn::BatchNorm({.in_channels = 4}), gluon::nn::Dense(2));
    net.initialize(gluon::init::Normal(1));
    return net;
  };
  gluon::nn::Sequential first = network(1);
  const NDArray x = random_array({5, 3}, 2);
  const auto wanted = values(first(x));
  for (const char* const name : {"net.params", "net.safetensors", "net.npz"}) {
    CAPTURE(name);
    first.save_parameters(folder / name);
    gluon::nn::Sequential second = network(2);
    second.load_parameters(folder / name);
    CHECK(values(second(x)) == wanted);
  }
  NamedArrays renamed;
  for (const auto& [name, array] : load_any(folder / "net.params"))
    renamed.emplace_back("other_" + std::to_string(renamed.size()), array);
  save_any(folder / "renamed.params", renamed);
  gluon::nn::Sequential third = network(3);
  CHECK_THROWS_AS(third.load_parameters(folder / "renamed.params"), ValueError);
  third.load_parameters(folder / "renamed.params", {.in_order = true});
  CHECK(values(third(x)) == wanted);
  // One too few, and one of another shape: nothing is set.
  gluon::nn::Sequential fourth = network(4);
  const auto before = values(fourth(x));
  NamedArrays fewer(renamed.begin(), renamed.end() - 1);
  save_any(folder / "fewer.params", fewer);
  CHECK_THROWS_AS(fourth.load_parameters(folder / "fewer.params", {.in_order = true}), ValueError);
  std::swap(renamed[0], renamed[1]);
  save_any(folder / "swapped.params", renamed);
  CHECK_THROWS_AS(fourth.load_parameters(folder / "swapped.params", {.in_order = true}), ShapeError);
  CHECK(values(fourth(x)) == before);
  write_file(
      folder / "twice.params",
      bytes_of("120100000000000000000000000000000200000000000000"
               "c8fa93f90000000000000000"));
  CHECK_THROWS_AS(fourth.load_parameters(folder / "twice.params"), FileError);
}

TEST_CASE("Many layers in order are those of the file, or an error where it has no order", "[gluon][formats]") {
  const TemporaryFolder folder;
  const auto network = [] {
    gluon::nn::Sequential net;
    for (int i = 0; i < 11; ++i)  // "10.weight" comes before "2.weight" by name
      net.add(gluon::nn::Dense(1, {.use_bias = false, .in_units = 1}));
    net.initialize(gluon::init::Zero());
    return net;
  };
  gluon::nn::Sequential first = network(), second = network();
  NamedArrays renamed;
  for (const auto& [name, parameter] : first.collect_params()) {
    fill(parameter.data(), static_cast<double>(renamed.size()));
    renamed.emplace_back("other" + std::to_string(renamed.size()), parameter.data());
  }
  const auto check = [&](const char* name) {
    CAPTURE(name);
    second.initialize(gluon::init::Zero(), cpu(), true);
    second.load_parameters(folder / name, {.in_order = true});
    for (const auto& [path, parameter] : second.collect_params()) {
      CAPTURE(path);
      CHECK(values(parameter.data()) == values(first.collect_params()[path].data()));
    }
  };
  first.save_parameters(folder / "own.npz");
  check("own.npz");
  save_any(folder / "other.params", renamed);
  check("other.params");
  save_any(folder / "other.safetensors", renamed);
  check("other.safetensors");
  save_any(folder / "other.npz", renamed);
  CHECK_THROWS_AS(second.load_parameters(folder / "other.npz", {.in_order = true}), ValueError);
  CHECK_THROWS_AS(save_any(folder / "no.safetensors", {{"\xff", ones({1})}}), ValueError);
}

TEST_CASE("Files that lie are refused with what is wrong", "[gluon][formats]") {
  const TemporaryFolder folder;
  const auto refused = [&](const Bytes& bytes, const char* why) {
    write_file(folder / "file", bytes);
    const std::string error = error_of(folder / "file");
    CAPTURE(error, why);
    CHECK(error.find(why) != std::string::npos);
  };
  const auto changed = [](const std::string& digits, std::size_t at, std::initializer_list<std::uint8_t> to) {
    Bytes bytes = bytes_of(digits);
    std::copy(to.begin(), to.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    return bytes;
  };
  refused(changed(k_mxnet_named, 16, {255, 255, 255, 255, 255, 255, 255, 255}), "cannot have");
  refused(changed(k_mxnet_named, 28, {1}), "is sparse");
  refused(changed(k_mxnet_named, 32, {0}), "has no shape");
  refused(changed(k_mxnet_named, 32, {33}), "axes");
  refused(changed(k_mxnet_named, 32, {9}), "more than an array can have");
  refused(changed(k_mxnet_named, 36, {0, 0, 0, 0, 0, 0, 0, 255}), "has an axis of -");
  refused(changed(k_mxnet_named, 36, {0, 0, 0, 0, 0, 0, 0, 127}), "does not fit");
  refused(changed(k_mxnet_named, 36, {255, 255, 255, 255, 255, 0, 0, 0}), "does not fit");
  refused(changed(k_mxnet_named, 60, {77}), "type 77");
  Bytes longer = bytes_of(k_mxnet_named);
  longer.push_back(0);
  refused(longer, "behind its last name");
  Bytes shorter = bytes_of(k_mxnet_named);
  shorter.pop_back();
  refused(shorter, "ends within name 1");
}

namespace {

/// A header, and so many bytes of values.
Bytes with_header(const std::string& json, std::size_t values) {
  Bytes bytes(8);
  const std::uint64_t length = json.size();
  std::memcpy(bytes.data(), &length, 8);
  bytes.insert(bytes.end(), json.begin(), json.end());
  bytes.resize(bytes.size() + values);
  return bytes;
}

}  // namespace

TEST_CASE("Headers of safetensors that lie are refused with what is wrong", "[gluon][formats]") {
  const TemporaryFolder folder;
  const auto refused = [&](const Bytes& bytes, const char* why) {
    write_file(folder / "file", bytes);
    const std::string error = error_of(folder / "file");
    CAPTURE(error, why);
    CHECK(error.find(why) != std::string::npos);
  };
  const auto header = with_header;
  refused(header("{\"a\":", 0), "no JSON object");
  refused(header("{\"a\":1}", 0), "no dtype");
  refused(header(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1), "F8_E4M3");
  refused(header(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1), "not negative");
  refused(header(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1), "not negative");
  refused(header(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1), "at most 8");
  refused(header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}})", 1), "needs 2 bytes");
  refused(header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1), "data_offsets");
  refused(header(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0), "more elements");
  refused(header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2), "begins at 1");
  refused(header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2), "it has 2");
  refused(
      header(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1),
      "\"b\" begins at 0");
  Bytes cut = header("{}", 0);
  cut[0] = 200;
  refused(cut, "ends within its header");
  CHECK_THROWS_AS(load_any(folder / "absent"), FileError);
  CHECK_THROWS_AS(load_mxnet(folder.path()), FileError);
  write_file(folder / "empty", {});
  CHECK_THROWS_AS(load_safetensors(folder / "empty"), FileError);
}

TEST_CASE("Files with any bytes changed or cut are read or refused", "[gluon][formats]") {
  const TemporaryFolder folder;
  std::mt19937 draw(7);
  for (const std::string& digits :
       {k_mxnet_named, k_mxnet_list, k_mxnet_numpy, k_mxnet_integers, k_safetensors, k_safetensors_integers}) {
    const Bytes whole = bytes_of(digits);
    for (int i = 0; i < 700; ++i) {
      Bytes bytes = whole;
      for (unsigned changes = draw() % 4; changes > 0; --changes)
        bytes[draw() % bytes.size()] = static_cast<std::uint8_t>(draw() % 3 == 0 ? 255 : draw());
      if (draw() % 4 == 0)
        bytes.resize(draw() % bytes.size());
      write_file(folder / "file", bytes);
      try {
        for (const auto& [name, array] : digits == k_safetensors || digits == k_safetensors_integers
                                             ? load_safetensors(folder / "file")
                                             : load_mxnet(folder / "file"))
          CHECK(array.size() <= 64);
      } catch (const FileError&) {
      }
    }
  }
}
