#include <cstdlib>

#include "tests/gluon/idx_files.h"

using namespace sluice;
using namespace sluice::test;
using gluon::data::read_idx;
using gluon::data::vision::FashionMNIST;
using gluon::data::vision::MNIST;

namespace {

// The FileError that reading `path` throws; it must name the file.
std::string complaint(const std::filesystem::path& path, int axes = 3) {
  try {
    read_idx(path, axes);
  } catch (const FileError& error) {
    CHECK(error.message().find(path.string()) != std::string::npos);
    return error.message();
  }
  FAIL(path << " was read");
  return {};
}

bool mentions(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

const Bytes k_twelve = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

}  // namespace

TEST_CASE("an IDX file is read, plain and gzipped", "[gluon][idx]") {
  TemporaryFolder folder;
  const Bytes plain = idx_bytes({3, 2, 2}, k_twelve);
  write_file(folder / "plain", plain);
  write_file(folder / "packed.gz", gzipped(plain));
  for (const char* name : {"plain", "packed.gz"}) {
    const auto idx = read_idx(folder / name, 3);
    CHECK(idx.shape == std::vector<std::int64_t>{3, 2, 2});
    CHECK(idx.values == k_twelve);
  }
  write_file(folder / "empty", idx_bytes({0}, {}));
  CHECK(read_idx(folder / "empty", 1).values.empty());
}

TEST_CASE("an IDX file that is not what it should be is a FileError that says why", "[gluon][idx]") {
  TemporaryFolder folder;
  const Bytes good = idx_bytes({3, 2, 2}, k_twelve);
  mentions(complaint(folder / "absent"), "no such file");
  mentions(complaint(folder.path()), "not a regular file");
  write_file(folder / "zero", {});
  mentions(complaint(folder / "zero"), "header");
  write_file(folder / "text", Bytes{'h', 'e', 'l', 'l', 'o', ' ', 'w', 'o', 'r', 'l', 'd', '.', '.', '.', '.', '.'});
  mentions(complaint(folder / "text"), "not an IDX file");
  write_file(folder / "type", idx_bytes({3, 2, 2}, k_twelve, 0x0d));
  mentions(complaint(folder / "type"), "type 13");
  write_file(folder / "axes", good);
  mentions(complaint(folder / "axes", 1), "3 axes");
  write_file(folder / "short header", Bytes(good.begin(), good.begin() + 9));
  mentions(complaint(folder / "short header"), "header");
  write_file(folder / "short", Bytes(good.begin(), good.end() - 1));
  mentions(complaint(folder / "short"), "truncated");
  Bytes longer = good;
  longer.push_back(0);
  write_file(folder / "long", longer);
  mentions(complaint(folder / "long"), "after the 12 values");
  write_file(folder / "long.gz", gzipped(longer));
  mentions(complaint(folder / "long.gz"), "after the 12 values");
}

TEST_CASE("damaged gzip data is a FileError wherever it breaks", "[gluon][idx]") {
  TemporaryFolder folder;
  Bytes values(1000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::uint8_t>(i * i);
  const Bytes packed = gzipped(idx_bytes({10, 10, 10}, values));
  for (std::size_t n = 2; n < packed.size(); n += 7) {
    write_file(folder / "cut.gz", Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(n)));
    mentions(complaint(folder / "cut.gz"), "truncated");
  }
  for (std::size_t i = 10; i < packed.size(); i += 5) {
    Bytes damaged = packed;
    damaged[i] ^= 0x55;
    write_file(folder / "damaged.gz", damaged);
    CHECK_THROWS_AS(read_idx(folder / "damaged.gz", 3), FileError);
  }
  Bytes trailing = packed;
  trailing.push_back('x');
  write_file(folder / "trailing.gz", trailing);
  mentions(complaint(folder / "trailing.gz"), "after the end");
}

TEST_CASE("a header that claims the moon costs no memory", "[gluon][idx]") {
  TemporaryFolder folder;
  write_file(folder / "overflow", idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, k_twelve));
  mentions(complaint(folder / "overflow"), "more values than can be");
  write_file(folder / "huge", idx_bytes({0xffffffff, 0xffff, 1}, k_twelve));
  mentions(complaint(folder / "huge"), "truncated");
  write_file(folder / "huge.gz", gzipped(idx_bytes({0xffffffff, 0xffff, 1}, k_twelve)));
  mentions(complaint(folder / "huge.gz"), "truncated");
}

TEST_CASE("MNIST's files give uint8 images and int32 labels", "[gluon][idx]") {
  TemporaryFolder folder;
  write_toy_dataset(folder.path(), 30, 7);
  const MNIST train({.root = folder.path().string()}), test({.root = folder.path().string(), .train = false});
  CHECK(train.size() == 30);
  CHECK(test.size() == 7);
  CHECK(train.data_spec().shape == Shape{28, 28, 1});
  CHECK(train.data_spec().dtype == uint8);
  CHECK(train.label_spec().dtype == int32);
  gluon::data::DataLoader loader(test, {.batch_size = 7});
  const ToyImages toy = toy_images(7, 28);
  for (auto [x, y] : loader) {
    CHECK(x.shape() == Shape{7, 28, 28, 1});
    CHECK(x.to_vector<std::uint8_t>() == toy.pixels);
    CHECK(y.shape() == Shape{7});
    const auto labels = y.to_vector<std::int32_t>();
    CHECK(Bytes(labels.begin(), labels.end()) == toy.labels);
  }
}

TEST_CASE("image files that do not belong together are a FileError", "[gluon][idx]") {
  TemporaryFolder folder;
  const gluon::data::vision::ImageFilesOptions options{.root = folder.path().string()};
  CHECK_THROWS_AS(MNIST(options), FileError);
  CHECK_THROWS_WITH(MNIST(options), contains("lacks the file train-images-idx3-ubyte.gz"));
  CHECK_THROWS_WITH(
      MNIST({.root = (folder / "absent").string()}),
      contains("absent") && contains("no such folder") && contains("SLUICE_DATA"));
  write_toy_dataset(folder.path(), 30, 7);
  const ToyImages toy = toy_images(30, 28);
  write_file(folder / "train-labels-idx1-ubyte.gz", gzipped(idx_bytes({29}, Bytes(29))));
  CHECK_THROWS_WITH(MNIST(options), contains("30 images") && contains("29 labels"));
  write_file(folder / "train-labels-idx1-ubyte.gz", gzipped(idx_bytes({30}, Bytes(30, 10))));
  CHECK_THROWS_WITH(MNIST(options), contains("label 10 at 0"));
  write_file(folder / "train-labels-idx1-ubyte.gz", gzipped(idx_bytes({30, 28, 28}, toy.pixels)));
  CHECK_THROWS_WITH(MNIST(options), contains("3 axes"));
}

TEST_CASE("SLUICE_DATA names the folder when the program does not", "[gluon][idx]") {
  TemporaryFolder folder;
  write_toy_dataset(folder.path(), 30, 7);
  setenv("SLUICE_DATA", folder.path().c_str(), 1);
  CHECK(FashionMNIST().size() == 30);
  CHECK(MNIST({.train = false}).size() == 7);
  setenv("SLUICE_DATA", (folder / "nowhere").c_str(), 1);
  CHECK_THROWS_WITH(MNIST(), contains("SLUICE_DATA=" + (folder / "nowhere").string() + ": "));
  unsetenv("SLUICE_DATA");
  CHECK_THROWS_AS(MNIST(), FileError);
}

TEST_CASE("Fashion-MNIST of Debian's package has its known sums", "[gluon][idx]") {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    SLUICE_SKIP("the package dataset-fashion-mnist is not installed");
  const FashionMNIST test({.train = false});
  CHECK(test.size() == 10000);
  gluon::data::DataLoader loader(test, {.batch_size = 10000});
  for (auto [x, y] : loader) {
    // Every class has 1000 images; the mean pixel is 73.1466 (computed with NumPy from the same files).
    CHECK(sum(y).item<std::int64_t>() == 45000);
    CHECK(static_cast<double>(sum(x).item<std::int64_t>()) / 7840000.0 == Approx(73.1466).margin(1e-3));
  }
}
