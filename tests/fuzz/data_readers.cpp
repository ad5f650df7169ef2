#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sluice/gluon/data/cifar.h>
#include <sluice/gluon/data/csv.h>
#include <sluice/gluon/data/idx.h>
#include <sluice/gluon/data/recordio.h>
#include <sluice/gluon/data/vision/image_files.h>
#include <sluice/gluon/image/detail/gpu_decoding.h>
#include <sluice/gluon/image/image.h>
#include <sluice/ndarray/api.h>
#include <sluice/operator/api.h>
#include <sluice/operator/library/kept_choices.h>

#include "tests/fuzz/readers.h"

namespace sluice::fuzz {

namespace {

using namespace gluon::data;

void write_bytes(const Path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

Reader tables() {
  const auto write = [](const Path& folder) {
    write_bytes(folder / "plain.csv", "1,2.5\n-3e4,7\n");
    write_bytes(folder / "quoted.csv", "\"a \"\"b\"\"\",c\r\n1,\"2\"\r\n\r\n,nan\n");
  };
  return {.name = "csv", .ending = ".csv", .write = write, .read = [](const Path& file) {
            const Bytes bytes = image::read_encoded(file, 1 << 24);
            const bool header = !bytes.empty() && bytes[0] == '"';
            CsvDataset(file, {.header = header, .missing = header ? std::optional(0.5) : std::nullopt});
          }};
}

Reader idx() {
  const auto write = [](const Path& folder) {
    write_bytes(folder / "labels.idx", std::string("\0\0\10\1\0\0\0\3abc", 11));
    write_bytes(folder / "images.idx", std::string("\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\2abcd", 20));
  };
  return {.name = "idx", .ending = ".idx", .write = write, .read = [](const Path& file) {
            const Bytes first = image::read_encoded(file, 1 << 24);
            read_idx(file, first.size() > 3 && first[3] == 3 ? 3 : 1);
          }};
}

Reader records() {
  const auto write = [](const Path& folder) {
    recordio::RecordWriter writer(folder / "some.rec");
    const std::uint8_t content[] = {1, 2, 3, 0x0a, 0x23, 0xd7, 0xce, 4};  // with the mark of records inside
    writer.write(recordio::pack({.labels = {1}}, content));
    writer.write(recordio::pack({.flag = 2, .labels = {1, 2}}, {content, 5}));
    writer.close();
  };
  return {.name = "records", .ending = ".rec", .write = write, .read = [](const Path& file) {
            recordio::RecordReader reader(file);
            while (const auto record = reader.read())
              recordio::unpack(*record);
          }};
}

Reader record_indices() {
  const auto write = [](const Path& folder) { write_bytes(folder / "some.idx", "0\t0\n7\t24\n-1\t48\n"); };
  return {.name = "record_index", .ending = ".idx", .write = write, .read = [](const Path& file) {
            recordio::read_index(file);
          }};
}

/// A file by itself, whatever it is called.
struct CifarFile : vision::CifarImages {
  CifarFile(const Path& file, std::vector<int> classes) : CifarImages({file}, {.classes = std::move(classes)}) {}
};

Reader cifar() {
  constexpr std::size_t k_pixels = 3 * 32 * 32;
  const auto write = [](const Path& folder) {
    const std::string image(k_pixels, '\5');
    write_bytes(folder / "ten.bin", '\7' + image + '\0' + image);
    write_bytes(folder / "hundred.bin", "\3\x60" + image);
  };
  return {.name = "cifar", .ending = ".bin", .write = write, .read = [](const Path& file) {
            const bool ten = std::filesystem::file_size(file) % (k_pixels + 1) == 0;
            const CifarFile images(file, ten ? std::vector<int>{10} : std::vector<int>{20, 100});
            for (std::int64_t i = 0; i < images.size(); ++i)
              images.data_row(i);
          }};
}

Reader image_lists() {
  const auto write = [](const Path& folder) {
    write_bytes(folder / "classes.lst", "0\t1\ta.jpg\r\n\n1\t0\tfolder/b.png\n");
    write_bytes(folder / "numbers.lst", "0\t1.5\t-2e3\ta.jpg\n7\t0\t3\tb c.jpg");
  };
  return {.name = "image_list", .ending = ".lst", .write = write, .read = [](const Path& file) {
            vision::ImageListDataset("nowhere", file).items();
          }};
}

// It takes any file; whatever stands there, what is kept behind it is found again.
Reader kept_choices() {
  const auto write = [](const Path& folder) {
    write_bytes(folder / "some.txt", "key\t3\nother key\tsplit 4\nkey\t5\n");
    write_bytes(folder / "torn.txt", "key\t3\nother k");
  };
  return {.name = "kept_choices", .ending = ".txt", .write = write, .read = [](const Path& file) {
            sluice::detail::KeptChoices(file).keep("mine", "7");
            if (sluice::detail::KeptChoices(file).find("mine") != "7")
              throw std::logic_error("a choice that was kept is not found");
          }};
}

void write_images(const Path& folder, image::ImageFormat format, const std::string& ending) {
  const NDArray picture = arange(0, 96, 1, {.dtype = float32}).reshape({8, 4, 3}).astype(uint8);
  image::imwrite(folder / ("colours" + ending), picture, {.format = format});
  image::imwrite(folder / ("grey" + ending), picture.slice(2, 0, 1), {.format = format, .progressive = true});
}

void read_image(const Path& file) {
  image::imread(file, {.orient = true, .most_bytes = 1 << 22}).wait_to_read();
  image::imread(file, {.channels = 1, .shorter_side = 3, .most_bytes = 1 << 22}).wait_to_read();
}

Reader jpeg() {
  const auto write = [](const Path& folder) { write_images(folder, image::ImageFormat::jpeg, ".jpg"); };
  return {.name = "jpeg", .ending = ".jpg", .write = write, .read = [](const Path& file) {
            image::detail::is_whole_jpeg(image::read_encoded(file, 1 << 24));
            read_image(file);
          }};
}

Reader png() {
  const auto write = [](const Path& folder) { write_images(folder, image::ImageFormat::png, ".png"); };
  return {.name = "png", .ending = ".png", .write = write, .read = read_image};
}

}  // namespace

std::vector<Reader> data_readers() {
  return {tables(), idx(), records(), record_indices(), cifar(), image_lists(), kept_choices(), jpeg(), png()};
}

}  // namespace sluice::fuzz
