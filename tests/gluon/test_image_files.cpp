#include <random>

#include "tests/gluon/image_support.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;
using namespace gluon::data::vision;
namespace fs = std::filesystem;

namespace {

void put(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// Grey images of one shade.
void put_image(const fs::path& path, std::uint8_t shade, std::int64_t height, std::int64_t width) {
  fs::create_directories(path.parent_path());
  image::imwrite(
      path, array(std::vector<std::uint8_t>(static_cast<std::size_t>(height * width), shade), {height, width, 1}));
}

void put_tree(const fs::path& root) {
  put_image(root / "dog" / "b.png", 50, 3, 4);
  put_image(root / "dog" / "a.JPG", 60, 8, 8);
  put_image(root / "cat" / "z.jpeg", 20, 5, 2);
  put_image(root / "Ape" / "x.png", 10, 1, 1);
  put(root / "cat" / "notes.txt", "no image");
  put(root / "list.txt", "no class");
  fs::create_directories(root / "empty");
  fs::create_directories(root / "dog" / "c.png");  // a folder
}

}  // namespace

TEST_CASE("an ImageFolderDataset has classes and files in the order of their names", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  TemporaryFolder folder;
  put_tree(folder.path());
  const ImageFolderDataset dataset(folder.path());
  CHECK(dataset.synsets() == std::vector<std::string>{"Ape", "cat", "dog", "empty"});
  REQUIRE(dataset.size() == 4);
  CHECK(dataset.items()[2].path == folder / "dog" / "a.JPG");
  std::vector<Shape> shapes;
  std::vector<std::int32_t> labels;
  std::vector<int> shades;
  for (std::int64_t i = 0; i < 4; ++i) {
    const Sample sample = dataset.sample_at(i);
    shapes.push_back(sample[0].shape());
    shades.push_back(sample[0].as<std::uint8_t>()[0]);
    labels.push_back(sample[1].item<std::int32_t>());
  }
  CHECK(shapes == std::vector<Shape>{{1, 1, 3}, {5, 2, 3}, {8, 8, 3}, {3, 4, 3}});
  CHECK(shades == std::vector<int>{10, 20, 60, 50});
  CHECK(labels == std::vector<std::int32_t>{0, 1, 2, 2});
  const ImageFolderDataset grey(folder.path(), {.decode = {.channels = 1}, .extensions = {".png"}});
  CHECK(grey.size() == 2);
  CHECK(grey.sample_at(1)[0].shape() == Shape{3, 4, 1});
}

TEST_CASE("a folder without images is a FileError, a damaged image one where it is read", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  TemporaryFolder folder;
  CHECK_THROWS_AS(ImageFolderDataset(folder / "absent"), FileError);
  CHECK_THROWS_AS(ImageFolderDataset(folder.path()), FileError);
  put(folder / "file", "x");
  CHECK_THROWS_AS(ImageFolderDataset(folder / "file"), FileError);
  put_image(folder / "cat" / "a.png", 1, 4, 4);
  put(folder / "cat" / "b.png", "nothing");
  put_image(folder / "cat" / "c.png", 3, 4, 4);
  DataLoader loader(ImageFolderDataset(folder.path()), {.batch_size = 1});
  std::vector<float> read;
  std::string complaint;
  for (const auto& [x, y] : loader) {
    try {
      read.push_back(values(x)[0]);
    } catch (const FileError& error) {
      complaint = error.what();
    }
  }
  CHECK(read == std::vector<float>{1, 3});
  CHECK(complaint.find("b.png: it is neither JPEG nor PNG") != std::string::npos);
  CHECK(complaint.find("batch 1, sample 1") != std::string::npos);
}

TEST_CASE("images of many sizes become batches that do not depend on the number of workers", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  TemporaryFolder folder;
  for (int i = 0; i < 12; ++i) {
    const NDArray pixels = smooth_image(20 + 3 * i, 40 - 2 * i, 3);
    fs::create_directories(folder / std::to_string(i % 3));
    image::imwrite(folder / std::to_string(i % 3) / (std::to_string(i) + (i % 2 == 0 ? ".png" : ".jpg")), pixels);
  }
  const auto dataset = ImageFolderDataset(folder.path())
                           .transform_first(Compose(
                               transforms::RandomResizedCrop(16),
                               transforms::RandomFlipLeftRight(),
                               transforms::RandomColorJitter(0.3, 0.3, 0.3, 0.1),
                               ToTensor()));
  std::vector<std::vector<float>> epochs;
  for (const int workers : {1, 4}) {
    Engine engine({.workers = workers, .seed = 1});
    const EngineScope scope(engine);
    DataLoader loader(dataset, {.batch_size = 5, .shuffle = true, .seed = 3});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<float> all;
      for (const auto& [x, y] : loader) {
        CHECK(x.shape() == Shape{y.shape()[0], 3, 16, 16});
        const std::vector<float> some = values(x);
        all.insert(all.end(), some.begin(), some.end());
      }
      epochs.push_back(all);
    }
  }
  CHECK(epochs[0] == epochs[2]);
  CHECK(epochs[1] == epochs[3]);
  CHECK(epochs[0] != epochs[1]);
}

TEST_CASE("an ImageListDataset reads the files of a list with their labels", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  TemporaryFolder folder;
  put_tree(folder.path());
  put(folder / "train.lst", "5\t3\tdog/b.png\r\n\n6\t1.000000\tcat/z.jpeg\n");
  const ImageListDataset classes(folder.path(), folder / "train.lst");
  REQUIRE(classes.size() == 2);
  CHECK(classes.sample_at(0)[0].shape() == Shape{3, 4, 3});
  CHECK(classes.sample_at(0)[1].item<std::int32_t>() == 3);
  CHECK(classes.sample_at(1)[1].item<std::int32_t>() == 1);
  put(folder / "boxes.lst", "0\t0.5\t-2\tdog/b.png\n1\t1\t2\tdog/a.JPG");
  const ImageListDataset boxes(folder.path(), folder / "boxes.lst", {.channels = 1});
  CHECK(boxes.sample_at(1)[0].shape() == Shape{8, 8, 1});
  CHECK(boxes.sample_at(0)[1].shape() == Shape{2});
  CHECK(boxes.sample_at(0)[1].as<float>()[1] == -2);
  const ImageListDataset given(folder.path(), std::vector<ImageListItem>{{{0.5f}, "cat/z.jpeg"}, {{1}, "absent.png"}});
  CHECK(given.sample_at(0)[1].item<float>() == 0.5f);
  CHECK_THROWS_AS(given.sample_at(1), FileError);
  CHECK_THROWS_AS(ImageListDataset(folder.path(), std::vector<ImageListItem>{}), ValueError);
  CHECK_THROWS_AS(ImageListDataset(folder.path(), std::vector<ImageListItem>{{{}, "a"}}), ValueError);
  CHECK_THROWS_AS(ImageListDataset(folder.path(), std::vector<ImageListItem>{{{1}, "a"}, {{1, 2}, "b"}}), ValueError);
}

TEST_CASE("an ImageRecordDataset decodes the images of a record file", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  TemporaryFolder folder;
  const auto png = [](std::int64_t height, std::int64_t width) {
    return image::imencode(smooth_image(height, width, 3), {.format = image::ImageFormat::png});
  };
  recordio::IndexedRecordWriter writer(folder / "a.idx", folder / "a.rec");
  writer.write(4, recordio::pack({.flag = 0, .labels = {7}}, png(3, 5)));
  writer.write(5, recordio::pack({.flag = 0, .labels = {0.5f}}, png(6, 2)));
  writer.write(6, recordio::pack({.flag = 3, .labels = {1, 2, 3}}, png(1, 1)));
  writer.write(8, recordio::pack({.flag = 0, .labels = {1}}, std::vector<std::uint8_t>{1, 2, 3}));
  writer.write(9, std::vector<std::uint8_t>{1, 2, 3});
  writer.close();
  const ImageRecordDataset dataset(folder / "a.rec");
  REQUIRE(dataset.size() == 5);
  const Sample first = dataset.sample_at(0);
  CHECK(first[0].shape() == Shape{3, 5, 3});
  CHECK(std::equal(first[0].as<std::uint8_t>(), first[0].as<std::uint8_t>() + 45, smooth_pixels(3, 5, 3).begin()));
  CHECK(first[1].item<std::int32_t>() == 7);
  CHECK_THROWS_AS(dataset.sample_at(1), UnsupportedError);  // and no loader skips it as damaged
  const ImageRecordDataset numbers(folder / "a.rec", {}, RecordLabels::numbers);
  CHECK(numbers.sample_at(0)[1].item<float>() == 7);
  CHECK(numbers.sample_at(1)[1].item<float>() == 0.5f);
  CHECK(dataset.sample_at(2)[1].shape() == Shape{3});
  for (const std::int64_t broken : {3, 4}) {
    try {
      dataset.sample_at(broken);
      FAIL("a broken record was read");
    } catch (const FileError& error) {
      CHECK(error.message().find(broken == 3 ? "a.rec, record 8: " : "a.rec, record 9: ") != std::string::npos);
    }
  }
  CHECK(ImageRecordDataset(folder / "a.rec", {.channels = 1}).sample_at(0)[0].shape() == Shape{3, 5, 1});
}

namespace {

// Batches of one sample: what write_sample() puts there is what sample_at() gives, and a batch of another shape is
// refused before a pixel of it is written.
template <class D>
void check_write_sample(const D& dataset) {
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const Sample sample = dataset.sample_at(i);
    std::vector<std::vector<std::byte>> memory;
    std::vector<TensorView> views;
    for (const HostArray& array : sample) {
      memory.emplace_back(array.bytes(), std::byte{170});
      views.push_back(gluon::data::detail::batch_view(memory.back().data(), 1, array.spec()));
    }
    dataset.write_sample(i, views);
    for (std::size_t a = 0; a < sample.size(); ++a)
      CHECK(std::memcmp(memory[a].data(), sample[a].data(), memory[a].size()) == 0);
    std::vector<std::byte> other(64 * 64 * 3, std::byte{170});
    const std::vector<TensorView> larger = {
        gluon::data::detail::batch_view(other.data(), 1, {.shape = {64, 64, 3}, .dtype = uint8}), views[1]};
    CHECK_THROWS_WITH(
        dataset.write_sample(i, larger), contains("array 0 of a sample has shape") && contains("(64, 64, 3)"));
    CHECK(std::count(other.begin(), other.end(), std::byte{170}) == std::ssize(other));
    CHECK_THROWS_AS(dataset.write_sample(i, std::span(views).first(1)), ShapeError);
  }
}

}  // namespace

TEST_CASE("images are decoded straight into a batch, to what an array of their own would hold", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  TemporaryFolder folder;
  put_tree(folder.path());
  check_write_sample(ImageFolderDataset(folder.path()));
  check_write_sample(ImageListDataset(folder.path(), {{{1, 2}, "dog/b.png"}, {{3, 4}, "cat/z.jpeg"}}, {.channels = 1}));
  {
    recordio::IndexedRecordWriter writer(folder / "a.idx", folder / "a.rec");
    writer.write(4, recordio::pack({.flag = 0, .labels = {7}}, image::imencode(smooth_image(3, 5, 3))));
    writer.write(6, recordio::pack({.flag = 3, .labels = {1, 2, 3}}, image::imencode(smooth_image(9, 2, 3))));
    writer.close();
  }
  check_write_sample(ImageRecordDataset(folder / "a.rec"));
}

TEST_CASE("a list that is none is a FileError with the line", "[gluon][image]") {
  TemporaryFolder folder;
  const auto complaint = [&](const std::string& text) {
    put(folder / "bad.lst", text);
    try {
      ImageListDataset(folder.path(), folder / "bad.lst");
    } catch (const FileError& error) {
      CHECK(error.message().find("bad.lst") != std::string::npos);
      return error.message();
    }
    return std::string();
  };
  CHECK(complaint("").find("no images") != std::string::npos);
  CHECK(complaint("0\t1\ta.png\n1\tb.png\n").find("line 2") != std::string::npos);
  CHECK(complaint("0 1 a.png\n").find("line 1") != std::string::npos);
  CHECK(complaint("0\tx\ta.png\n").find("\"x\" is no number") != std::string::npos);
  CHECK(complaint("0\tnan\ta.png\n").find("no number") != std::string::npos);
  CHECK(complaint("0\t1e99\ta.png\n").find("no number") != std::string::npos);
  CHECK(complaint("0\t1\t\n").find("line 1") != std::string::npos);
  CHECK(complaint("0\t1\ta.png\n1\t1\t2\tb.png\n").find("before there were 1") != std::string::npos);
  CHECK_THROWS_AS(ImageListDataset(folder.path(), folder / "absent.lst"), FileError);
  CHECK_THROWS_AS(ImageListDataset(folder.path(), folder.path()), FileError);
}

TEST_CASE("damaged lists are read or refused by a FileError", "[gluon][image]") {
  TemporaryFolder folder;
  const std::string whole = "5\t3\tdog/b.png\n6\t1.000000\tcat/z.jpeg\n7\t-2e3\tx\n";
  std::mt19937 draw(3);
  int read = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (std::uint32_t changes = 1 + draw() % 3; changes > 0 && !text.empty(); --changes) {
      const std::size_t at = draw() % text.size();
      switch (draw() % 4) {
        case 0:
          text[at] = static_cast<char>(draw());
          break;
        case 1:
          text.erase(at, 1 + draw() % 4);
          break;
        case 2:
          text.insert(at, text.substr(draw() % text.size(), draw() % 9));
          break;
        default:
          text[at] = "\t\n\r.-e9"[draw() % 7];
      }
    }
    fs::remove(folder / "list");  // one that is overwritten goes to the disk at once, in some file systems
    put(folder / "list", text);
    try {
      const ImageListDataset dataset(folder.path(), folder / "list");
      REQUIRE(dataset.items().front().label.size() == dataset.items().back().label.size());
      ++read;
    } catch (const FileError&) {
      ++refused;
    }
  }
  CHECK(read > 100);
  CHECK(refused > 500);
}
