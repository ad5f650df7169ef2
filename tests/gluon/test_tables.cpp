// Tables of numbers in text, and CIFAR's images: read as they should be, refused with the place where not.
#include <cmath>
#include <limits>
#include <random>

#include "tests/gluon/idx_files.h"
#include "tests/gluon/mutations.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;
using vision::CIFAR10;
using vision::CIFAR100;

namespace {

class Table {
 public:
  CsvDataset read(const std::string& text, const CsvOptions& options = {}) const {
    write_fresh(path(), {text.begin(), text.end()});
    return CsvDataset(path(), options);
  }
  std::string complaint(const std::string& text, const CsvOptions& options = {}) const {
    try {
      read(text, options);
    } catch (const FileError& error) {
      CHECK_THAT(error.message(), contains(path().string()));
      return error.message();
    }
    return "";
  }
  std::filesystem::path path() const { return folder_ / "t.csv"; }

 private:
  TemporaryFolder folder_;
};

Batch all_of(const CsvDataset& dataset) {
  DataLoader loader(dataset, {.batch_size = dataset.size()});
  return *loader.begin();
}

// Images of which pixel (y, x, c) of the i-th is i + 3 y + 5 x + 7 c, before which stand labels.
Bytes cifar_bytes(const std::vector<Bytes>& labels) {
  Bytes bytes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bytes.insert(bytes.end(), labels[i].begin(), labels[i].end());
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t at = 0; at < 1024; ++at)
        bytes.push_back(static_cast<std::uint8_t>(i + 3 * (at / 32) + 5 * (at % 32) + 7 * c));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("a table of numbers is read, quoted or not", "[gluon][csv]") {
  const Table table;
  const CsvDataset plain = table.read("1,2.5,-3e2\r\n\n\"4\", +5 ,.5\n");
  CHECK(plain.size() == 2);
  CHECK(plain.specs().size() == 1);
  const Batch batch = all_of(plain);
  CHECK(batch.count == 1);
  CHECK(batch.data.shape() == Shape{2, 3});
  CHECK(values(batch.data) == std::vector<float>{1, 2.5, -300, 4, 5, 0.5});
  const std::string people =
      "\xef\xbb\xbfname,\"age, in years\",\"he said \"\"height\"\"\",class\n"
      "\"Smith, J.\",30,1.5,2\n\"two\nlines\",40,1.75,7";
  const CsvDataset named = table.read(
      people,
      {.header = true,
       .columns = {"he said \"height\"", std::int64_t{1}},
       .label = std::int64_t{-1},
       .dtype = float64,
       .label_dtype = int32});
  CHECK(named.names() == std::vector<std::string>{"he said \"height\"", "age, in years"});
  const Batch two = all_of(named);
  CHECK(two.data.to_vector<double>() == std::vector<double>{1.5, 30, 1.75, 40});
  CHECK(two.label.to_vector<std::int32_t>() == std::vector<std::int32_t>{2, 7});
  const CsvDataset rest = table.read("a;b;c\n1;2;3\n", {.header = true, .delimiter = ';', .label = "b"});
  CHECK(rest.names() == std::vector<std::string>{"a", "c"});
  CHECK(rest.shard(1, 0)[0][1].item<float>() == 2);
  CHECK(table.read("a,b\n", {.header = true}).size() == 0);
  CHECK(table.read("5\" pipe,1\n\rx,2\n", {.columns = {std::int64_t{1}}}).size() == 2);
  const CsvDataset gaps = table.read("1,,3\n,\"\",nan\n", {.missing = -9});
  const std::vector<float> found = values(all_of(gaps).data);
  CHECK(std::vector<float>(found.begin(), found.begin() + 5) == std::vector<float>{1, -9, 3, -9, -9});
  CHECK(std::isnan(found[5]));
  write_file(table.path(), gzipped(Bytes{'1', ',', '2', '\n'}));
  CHECK(CsvDataset(table.path()).size() == 1);
  // A last field that a buffer's end cuts, and lines by the thousand.
  std::string many;
  for (int i = 0; i < 30000; ++i)
    many += std::to_string(i) + "," + std::to_string(i % 7) + "\n";
  const CsvDataset large = table.read(many, {.label = std::int64_t{1}, .label_dtype = int64});
  REQUIRE(large.size() == 30000);
  std::int64_t wrong = 0, at = 0;
  DataLoader loader(large, {.batch_size = 1000});
  for (auto [x, y] : loader) {
    const std::vector<std::int64_t> labels = y.to_vector<std::int64_t>();
    for (const float value : values(x)) {
      wrong += value != static_cast<float>(at) || labels[static_cast<std::size_t>(at % 1000)] != at % 7;
      ++at;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a table that is none is refused with line and column", "[gluon][csv]") {
  const Table table;
  CHECK_THAT(table.complaint("1,2\n3,x\n"), contains("line 2, column 2: 'x' is no number"));
  CHECK_THAT(table.complaint("a,b\n1,2\n\n\"\n\",2\n", {.header = true}), contains("line 4, column 1 ('a')"));
  CHECK_THAT(table.complaint("1,2\n\n3\n"), contains("line 3: it has 1 fields, the first line has 2"));
  CHECK_THAT(table.complaint("1,2\n3,4,5\n"), contains("it has 3 fields"));
  CHECK_THAT(table.complaint("1,\n"), contains("column 2: '' is empty") && contains("missing"));
  CHECK_THAT(table.complaint("1e39,1\n"), contains("'1e39' does not fit float32"));
  CHECK(table.read("1e39,1\n", {.dtype = float64}).size() == 1);
  for (const char* bad : {"1 2", "--1", "+-1", "0x10", "1e", "e1", "+", "1,2\n1,2 3"})
    CHECK_THAT(table.complaint(std::string(bad) + "\n"), contains("is no number"));
  const CsvOptions whole{.label = std::int64_t{0}, .label_dtype = int32};
  CHECK_THAT(table.complaint("1.5,2\n", whole), contains("line 1, column 1: '1.5' is no whole number"));
  CHECK_THAT(table.complaint("2147483648,2\n", whole), contains("does not fit int32"));
  CHECK(table.read("-2147483648,2\n", whole).size() == 1);
  CHECK_THAT(table.complaint("1,\"2\n3,4\n"), contains("line 1: a quote does not end"));
  CHECK_THAT(table.complaint("1,\"2\"3\n"), contains("line 1: there is text behind a quote"));
  CHECK_THAT(table.complaint("1,2\n3,4\"\n"), contains("line 2, column 2: '4\"' is no number"));
  CHECK_THAT(table.complaint("1,\"2\"\rx\n"), contains("carriage return"));
  CHECK_THAT(table.complaint(""), contains("has no rows"));
  CHECK_THAT(table.complaint("\n\r\n"), contains("has no rows"));
  CHECK_THAT(table.complaint("1,2\n", {.columns = {std::int64_t{2}}}), contains("no column 2, there are 2"));
  CHECK_THAT(table.complaint("1,2\n", {.label = std::int64_t{-3}}), contains("no column -3"));
  CHECK_THAT(table.complaint("a,b\n", {.header = true, .label = "c"}), contains("no column 'c'"));
  CHECK_THAT(table.complaint("a,a\n", {.header = true, .label = "a"}), contains("more than one column 'a'"));
  CHECK_THAT(table.complaint("1\n", {.label = std::int64_t{0}}), contains("no column of data"));
  CHECK_THAT(table.complaint("\"" + std::string((1 << 20) + 1, '1')), contains("does a quote not end?"));
  CHECK_THAT(table.complaint(std::string(1 << 20, ',')), contains("more than 1048576 fields"));
  CHECK_THROWS_AS(table.read("1", {.dtype = int32}), ValueError);
  CHECK_THROWS_AS(table.read("1", {.label_dtype = uint8}), ValueError);
  CHECK_THROWS_AS(table.read("1", {.delimiter = '"'}), ValueError);
  CHECK_THROWS_AS(table.read("1", {.label = "a"}), ValueError);
  CHECK_THROWS_AS(table.read("1", {.label = std::int64_t{0}, .label_dtype = int32, .missing = 0.5}), ValueError);
  CHECK_THROWS_AS(CsvDataset("/none.csv"), FileError);
}

TEST_CASE("thousands of damaged tables are read or refused", "[gluon][csv]") {
  const Table table;
  const std::string good = "a,\"b,b\",c\n1,2.5,3\n\"4\",5,\"6\"\n-7e1,8,9\r\n\n10,11,12\n";
  std::mt19937 draw(5);
  int read = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const Bytes bytes = mutated(Bytes(good.begin(), good.end()), draw);
    write_fresh(table.path(), bytes);
    try {
      const CsvDataset dataset(table.path(), {.header = true, .label = std::int64_t{-1}, .label_dtype = int64});
      REQUIRE(dataset.size() < 20);
      for (std::int64_t at = 0; at < dataset.size(); ++at)
        REQUIRE(dataset.take(at + 1)[at].size() == 2);
      ++read;
    } catch (const FileError&) {
      ++refused;
    }
  }
  CHECK(read > 100);
  CHECK(refused > 500);
}

TEST_CASE("CIFAR's files give images with channels last", "[gluon][data]") {
  const TemporaryFolder folder;
  for (int i = 1; i <= 5; ++i)
    write_file(
        folder / ("data_batch_" + std::to_string(i) + ".bin"), cifar_bytes({{static_cast<std::uint8_t>(i)}, {9}}));
  std::filesystem::create_directory(folder / "cifar-10-batches-bin");
  write_file(folder / "cifar-10-batches-bin" / "test_batch.bin.gz", gzipped(cifar_bytes({{3}})));
  const CIFAR10 train({.root = folder.path()}), test({.root = folder.path(), .train = false});
  CHECK(train.size() == 10);
  CHECK(test.size() == 1);
  DataLoader loader(train, {.batch_size = 10});
  const auto [x, y] = *loader.begin();
  CHECK(x.shape() == Shape{10, 32, 32, 3});
  CHECK(y.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 9, 2, 9, 3, 9, 4, 9, 5, 9});
  const std::vector<std::uint8_t> pixels = x.to_vector<std::uint8_t>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t image = i / 3072 % 2, at = i % 3072 / 3;
    wrong += pixels[i] != static_cast<std::uint8_t>(image + 3 * (at / 32) + 5 * (at % 32) + 7 * (i % 3));
  }
  CHECK(wrong == 0);
  DataLoader tensors(train.transform_first(vision::ToTensor()), {.batch_size = 2});
  CHECK(values((*tensors.begin()).data)[1024] == 7 / 255.0f);
  write_file(folder / "train.bin", cifar_bytes({{19, 99}, {0, 5}}));
  const auto labels = [&](bool fine) {
    DataLoader all(CIFAR100({.root = folder.path(), .fine_label = fine}), {.batch_size = 2});
    return (*all.begin()).label.to_vector<std::int32_t>();
  };
  CHECK(labels(false) == std::vector<std::int32_t>{19, 0});
  CHECK(labels(true) == std::vector<std::int32_t>{99, 5});
}

TEST_CASE("CIFAR's files that are not what they should be are refused", "[gluon][data]") {
  const TemporaryFolder folder;
  const auto complaint = [&](const Bytes& bytes) -> std::string {
    write_fresh(folder / "test.bin", bytes);
    try {
      CIFAR100({.root = folder.path(), .train = false});
    } catch (const FileError& error) {
      CHECK_THAT(error.message(), contains((folder / "test.bin").string()));
      return error.message();
    }
    return "";
  };
  const Bytes good = cifar_bytes({{19, 99}, {0, 5}});
  CHECK(complaint(good).empty());
  CHECK_THAT(complaint(cifar_bytes({{0, 0}, {20, 0}})), contains("label 20 of image 1 is above 19"));
  CHECK_THAT(complaint(cifar_bytes({{0, 100}})), contains("label 100 of image 0 is above 99"));
  CHECK_THAT(complaint(Bytes(good.begin(), good.end() - 1)), contains("image 1 has 3073 bytes of 3074"));
  CHECK_THAT(complaint({}), contains("holds no images"));
  CHECK_THROWS_WITH(CIFAR10({.root = folder.path()}), contains("lacks the file data_batch_1.bin"));
  std::mt19937 draw(2);
  int read = 0;
  for (int i = 0; i < 1000; ++i) {
    write_fresh(folder / "test.bin", mutated(good, draw));
    try {
      const CIFAR100 images({.root = folder.path(), .train = false, .fine_label = true});
      REQUIRE(images.size() <= 2);
      ++read;
    } catch (const FileError&) {
    }
  }
  CHECK(read > 50);
  CHECK(read < 950);
}
