#include <fstream>
#include <optional>
#include <string>

#include <sluice/gluon/data/csv.h>
#include <sluice/gluon/data/idx.h>
#include <sluice/gluon/data/recordio.h>
#include <sluice/gluon/image/detail/gpu_decoding.h>
#include <sluice/gluon/image/image.h>
#include <sluice/ndarray/api.h>
#include <sluice/operator/api.h>

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
  return {tables(), idx(), records(), record_indices(), jpeg(), png()};
}

}  // namespace sluice::fuzz
