// Record files: what MXNet wrote is read, what is written are the bytes that it writes (it read them once), and files
// that lie are refused.
#include <fstream>
#include <iterator>
#include <random>

#include "tests/gluon/mutations.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;
using recordio::Bytes;

namespace {

// MXNet 1.9.1, MXIndexedRecordIO: seven records with and without the magic number in them, then two with headers.
const std::string k_records =
    "0a23d7ce03000000616263000a23d7ce000000000a23d7ce000000200a23d7ce000000600a23d7ce04000020313233340a23d7ce02000060"
    "353600000a23d7ce0a00000031320a23d7ce3334353600000a23d7ce000000200a23d7ce000000400a23d7ce01000060780000000a23d7ce"
    "040000207778797a0a23d7ce000000600a23d7ce1c0000000000000000006040070000000000000009000000000000006a7065670a23d7ce"
    "230000000200000000000000080000000000000000000000000000000000803f000000c0706e6700";
const std::string k_index = "0\t0\n10\t12\n20\t20\n30\t36\n40\t60\n50\t80\n60\t108\n5\t128\n6\t164\n";
const std::string k_magic = "\x0a\x23\xd7\xce";

Bytes from_digits(const std::string& digits) {
  Bytes bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}
Bytes from_text(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of(std::span<const std::uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}
Bytes content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

const std::vector<std::string> k_plain = {
    "abc", "", k_magic, "1234" + k_magic + "56", "12" + k_magic + "3456", k_magic + k_magic + "x", "wxyz" + k_magic};

std::string complaint(const Bytes& file) {
  const TemporaryFolder folder;
  write_file(folder / "bad.rec", file);
  recordio::RecordReader reader(folder / "bad.rec");
  try {
    while (reader.read()) {
    }
  } catch (const FileError& error) {
    CHECK_THAT(error.message(), contains((folder / "bad.rec").string()));
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("record files that MXNet wrote are read, in turn and by index", "[gluon][recordio]") {
  const TemporaryFolder folder;
  write_file(folder / "m.rec", from_digits(k_records));
  recordio::RecordReader reader(folder / "m.rec");
  for (const int round : {0, 1}) {
    CAPTURE(round);
    for (const std::string& record : k_plain)
      CHECK(text_of(reader.read().value()) == record);
    CHECK(reader.read().has_value());
    CHECK(reader.read().has_value());
    CHECK_FALSE(reader.read().has_value());
    CHECK(reader.tell() == 208);
    reader.reset();
  }
  const RecordFileDataset in_file(folder / "m.rec");
  REQUIRE(in_file.size() == 9);
  CHECK(in_file.key(8) == 8);
  write_file(folder / "m.idx", from_text(k_index));
  const RecordFileDataset dataset(folder / "m.rec");
  REQUIRE(dataset.size() == 9);
  CHECK(dataset.key(3) == 30);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const HostArray bytes = dataset.sample_at(i)[0];
    CHECK(bytes.dtype() == uint8);
    CHECK(in_file.record(i) == dataset.record(i));
    CHECK(Bytes(bytes.as<std::uint8_t>(), bytes.as<std::uint8_t>() + bytes.size()) == dataset.record(i));
  }
  const Bytes one = dataset.record(7), two = dataset.record(8);
  const recordio::Unpacked jpeg = recordio::unpack(one), png = recordio::unpack(two);
  CHECK(jpeg.header.flag == 0);
  CHECK(jpeg.header.labels == std::vector<float>{3.5});
  CHECK(jpeg.header.id == 7);
  CHECK(jpeg.header.id2 == 9);
  CHECK(text_of(jpeg.content) == "jpeg");
  CHECK(png.header.flag == 2);
  CHECK(png.header.labels == std::vector<float>{1, -2});
  CHECK(png.header.id == 8);
  CHECK(text_of(png.content) == "png");
}

TEST_CASE("record files are written byte by byte as MXNet writes them", "[gluon][recordio]") {
  const TemporaryFolder folder;
  recordio::IndexedRecordWriter writer(folder / "w.idx", folder / "w.rec");
  std::int64_t key = 0;
  for (const std::string& record : k_plain)
    writer.write(10 * key++, from_text(record));
  writer.write(5, recordio::pack({.labels = {3.5}, .id = 7, .id2 = 9}, from_text("jpeg")));
  writer.write(6, recordio::pack({.labels = {1, -2}, .id = 8}, from_text("png")));
  CHECK_THROWS_WITH(writer.write(5, {}), contains("key 5 already"));
  writer.close();
  CHECK(content_of(folder / "w.rec") == from_digits(k_records));
  CHECK(text_of(content_of(folder / "w.idx")) == k_index);
  const Bytes one = recordio::pack({.flag = 1, .labels = {4}}, from_text("x"));
  CHECK(recordio::unpack(one).header.flag == 1);
  CHECK(recordio::unpack(one).header.labels == std::vector<float>{4});
  CHECK(text_of(recordio::unpack(one).content) == "x");
  CHECK_THROWS_AS(recordio::pack({}, {}), ValueError);
  CHECK_THROWS_AS(recordio::RecordWriter(folder / "no" / "where.rec"), FileError);
  recordio::RecordWriter full("/dev/full");
  const auto fills = [&] {
    full.write(Bytes(1 << 16));
    full.close();
  };
  CHECK_THROWS_AS(fills(), FileError);
}

TEST_CASE("records of any bytes come back, in batches too", "[gluon][recordio]") {
  const TemporaryFolder folder;
  std::mt19937 draw(3);
  std::vector<Bytes> records;
  recordio::RecordWriter writer(folder / "r.rec");
  for (std::size_t i = 0; i < 300; ++i) {
    Bytes record(draw() % 40);
    for (std::uint8_t& byte : record)
      byte = static_cast<std::uint8_t>(draw() % 3 == 0 ? k_magic[draw() % 4] : static_cast<char>(draw() % 7));
    for (std::size_t magics = draw() % 4; magics > 0 && record.size() > 4; --magics)
      std::copy(
          k_magic.begin(), k_magic.end(), record.begin() + static_cast<std::ptrdiff_t>(draw() % (record.size() - 3)));
    const std::uint64_t position = writer.tell();
    CHECK(writer.write(record) == position);
    records.push_back(record);
  }
  writer.close();
  const RecordFileDataset dataset(folder / "r.rec");
  REQUIRE(dataset.size() == 300);
  for (std::int64_t i = 0; i < 300; ++i)
    CHECK(dataset.record(i) == records[static_cast<std::size_t>(i)]);
  DataLoader loader(dataset, {.batch_size = 64, .batchify = batchify::Pad({.lengths = true})});
  std::size_t seen = 0;
  for (auto [bytes, lengths] : loader) {
    for (const std::int32_t length : lengths.to_vector<std::int32_t>())
      CHECK(static_cast<std::size_t>(length) == records[seen++].size());
  }
  CHECK(seen == 300);
}

TEST_CASE("record files that lie are refused with the place", "[gluon][recordio]") {
  const Bytes good = from_digits(k_records);
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    Bytes bytes = good;
    bytes[at] = value;
    return bytes;
  };
  CHECK(complaint(good).empty());
  CHECK(complaint({}).empty());
  CHECK_THAT(complaint(changed(0, 1)), contains("record at byte 0") && contains("magic"));
  CHECK_THAT(complaint(changed(19, 0x40)), contains("record at byte 12") && contains("kind 2"));
  CHECK_THAT(complaint(changed(35, 0x20)), contains("record at byte 20") && contains("kind 1"));
  CHECK_THAT(complaint(changed(19, 0x1f)), contains("claims 520093696 bytes, 188 are left"));
  for (std::size_t n = 1; n < good.size(); ++n) {
    const std::string text = complaint(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)));
    const bool between = n == 12 || n == 20 || n == 36 || n == 60 || n == 80 || n == 108 || n == 128 || n == 164;
    CHECK(text.empty() == between);
  }
  const TemporaryFolder folder;
  write_file(folder / "m.rec", good);
  const auto indexed = [&](const std::string& index) {
    write_file(folder / "m.idx", from_text(index));
    return RecordFileDataset(folder / "m.rec");
  };
  CHECK(indexed("1\t0\r\n\n2\t12").size() == 2);
  CHECK_THROWS_WITH(indexed("1\t0\n2 12\n"), contains("m.idx") && contains("line 2"));
  for (const char* line : {"\t1", "1\t", "x\t1", "1\t-1", "1\t1x", "1\t99999999999999999999", "1"})
    CHECK_THROWS_AS(indexed(line), FileError);
  CHECK_THROWS_WITH(indexed("1\t208"), contains("key 1 stands at byte 208") && contains("has 208"));
  CHECK_THROWS_WITH(indexed("1\t4").record(0), contains("record at byte 4"));
  CHECK_THROWS_AS(RecordFileDataset(folder / "m.rec", folder / "none.idx"), FileError);
  CHECK_THROWS_AS(RecordFileDataset(folder / "none.rec"), FileError);
  CHECK_THROWS_AS(RecordFileDataset(folder.path()), FileError);
  CHECK_THROWS_AS(recordio::unpack(Bytes(23)), FileError);
  Bytes labels(30);
  labels[0] = 2;
  CHECK_THROWS_WITH(recordio::unpack(labels), contains("2 labels") && contains("6 bytes"));
  std::fill_n(labels.begin(), 4, std::uint8_t{0xff});
  CHECK_THROWS_AS(recordio::unpack(labels), FileError);
}

TEST_CASE("a record that is refused has no line in the index", "[gluon][recordio]") {
  TemporaryFolder folder;
  const std::vector<std::uint8_t> small(5, 1);
  recordio::IndexedRecordWriter writer(folder / "a.idx", folder / "a.rec");
  writer.write(1, small);
  CHECK_THROWS_AS(writer.write(2, recordio::ByteView(small.data(), std::size_t{1} << 29)), ValueError);
  writer.write(3, small);
  writer.close();
  const auto index = recordio::read_index(folder / "a.idx");
  REQUIRE(index.size() == 2);
  CHECK(index[1].key == 3);
}

TEST_CASE("thousands of damaged record files are read or refused", "[gluon][recordio]") {
  const TemporaryFolder folder;
  std::mt19937 draw(1);
  int read = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    write_fresh(folder / "m.rec", i % 4 == 3 ? from_digits(k_records) : mutated(from_digits(k_records), draw));
    write_fresh(folder / "m.idx", i % 2 == 0 ? from_text(k_index) : mutated(from_text(k_index), draw));
    try {
      const RecordFileDataset dataset(folder / "m.rec");
      for (std::int64_t at = 0; at < dataset.size(); ++at) {
        const Bytes record = dataset.record(at);
        REQUIRE(record.size() < 2 * k_records.size());
        if (record.size() < 24)
          continue;
        const std::size_t left = recordio::unpack(record).content.size();
        REQUIRE(left <= record.size() - 24);
      }
      ++read;
    } catch (const FileError&) {
      ++refused;
    }
  }
  CHECK(read > 100);
  CHECK(refused > 1000);
}
