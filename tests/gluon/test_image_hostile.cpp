#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <zlib.h>

#include <sluice/gluon/image/image.h>

#include "tests/gluon/image_support.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using image::ImageDecoder;

namespace {

using Bytes = std::vector<std::uint8_t>;

// The FileError that decoding throws, which must name the image; "" where there is none.
std::string complaint(const Bytes& file, const image::DecodeOptions& options = {}) {
  try {
    ImageDecoder decoder(file, options, "cat.jpg");
    Bytes pixels(static_cast<std::size_t>(decoder.shape().size()));
    decoder.decode(pixels.data());
    return "";
  } catch (const FileError& error) {
    CHECK(error.message().find("cat.jpg: ") == 0);
    return error.message();
  }
}

void check_complaint(const Bytes& file, const std::string& part, const image::DecodeOptions& options = {}) {
  const std::string text = complaint(file, options);
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

// Makes a chunk's checksum right again, that its content is looked at.
void mend_png(Bytes& file) {
  std::size_t at = 8;
  while (at + 12 <= file.size()) {
    const std::size_t size = std::size_t{file[at]} << 24 | std::size_t{file[at + 1]} << 16 |
                             std::size_t{file[at + 2]} << 8 | std::size_t{file[at + 3]};
    if (size > file.size() - at - 12)
      return;
    const auto sum = crc32(0, file.data() + at + 4, static_cast<uInt>(size + 4));
    for (std::size_t i = 0; i < 4; ++i)
      file[at + 8 + size + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    at += size + 12;
  }
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * 4096;
}

Bytes mutated(Bytes file, std::mt19937& draw) {
  const auto at = [&] { return draw() % file.size(); };
  for (std::uint32_t changes = 1 + draw() % 3; changes > 0; --changes) {
    switch (draw() % 5) {
      case 0:
        file[at()] ^= static_cast<std::uint8_t>(1u << draw() % 8);
        break;
      case 1:
        file[at()] = static_cast<std::uint8_t>(draw() % 2 == 0 ? 255 : draw());
        break;
      case 2:
        file.resize(1 + at());
        break;
      case 3:
        file.erase(file.begin() + static_cast<std::ptrdiff_t>(at()));
        break;
      default: {
        const std::size_t from = at(), n = std::min<std::size_t>(draw() % 40, file.size() - from);
        const Bytes piece(
            file.begin() + static_cast<std::ptrdiff_t>(from), file.begin() + static_cast<std::ptrdiff_t>(from + n));
        file.insert(file.begin() + static_cast<std::ptrdiff_t>(at()), piece.begin(), piece.end());
      }
    }
    if (file.empty())
      file = {0};
  }
  return file;
}

Bytes with_size(Bytes png, std::uint32_t width, std::uint32_t height) {
  for (std::size_t i = 0; i < 4; ++i) {
    png[16 + i] = static_cast<std::uint8_t>(width >> (24 - 8 * i));
    png[20 + i] = static_cast<std::uint8_t>(height >> (24 - 8 * i));
  }
  mend_png(png);
  return png;
}

int leased = -1;

// Where the two bytes of a JPEG's height stand: behind SOF0 or SOF2, length and precision.
std::size_t place_of_height(const Bytes& jpeg) {
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xff && (jpeg[i + 1] == 0xc0 || jpeg[i + 1] == 0xc2))
      return i + 5;
  }
  return 0;
}

}  // namespace

TEST_CASE("damaged image files are decoded or refused by a FileError", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  std::mt19937 draw(7);
  const image::DecodeOptions choices[] = {
      {.channels = 0, .orient = true, .most_bytes = 1 << 20},
      {.channels = 1, .most_bytes = 1 << 20},
      {.channels = 4, .orient = true, .shorter_side = 3, .most_bytes = 1 << 20}};
  int decoded = 0, refused = 0;
  for (const EncodedImage& image : k_encoded_images) {
    INFO(image.name);
    const Bytes whole = from_base64(image.base64);
    for (int i = 0; i < 400; ++i) {
      CAPTURE(i);
      Bytes file = mutated(whole, draw);
      if (draw() % 4 != 0)
        mend_png(file);
      ++(complaint(file, choices[draw() % 3]).empty() ? decoded : refused);
    }
  }
  CHECK(decoded > 300);
  CHECK(refused > 1500);
}

TEST_CASE("an image file cut short anywhere is a FileError", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  for (const char* name : {"jpeg_420", "jpeg_progressive", "png_rgb", "png_palette"}) {
    INFO(name);
    const Bytes whole = encoded_image(name);
    for (std::size_t n = 0; n < whole.size(); ++n) {
      CAPTURE(n);
      REQUIRE_FALSE(complaint(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))).empty());
    }
  }
  // With an end marker where the cut was.
  Bytes ended = encoded_image("jpeg_420");
  ended.resize(ended.size() - 40);
  ended.insert(ended.end(), {0xff, 0xd9});
  check_complaint(ended, "premature end of data segment");
  check_complaint({}, "empty");
  check_complaint({'G', 'I', 'F', '8', '9', 'a'}, "neither JPEG nor PNG");
}

TEST_CASE("a damaged image of arithmetic codes is a FileError", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  Bytes file = from_base64(
      "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAx"
      "NDQ0Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIy"
      "MjIyMjIyMjL/yQARCAALAA4DASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIRAxEAPwD/AKWAX9MKbWV5rHLF9iOXQkZHrjfu"
      "09ToC5daK9Rhj9FsP05W/tK1wjGt0kJuU0JNkcEVoqa6auvsoslq/wCNy20HPhVYqDK5qA3+rhyA/9k=");
  const std::string whole = complaint(file);
  if (whole.find("not implemented") != std::string::npos)
    SLUICE_SKIP("libjpeg was built without arithmetic codes");
  CHECK(whole.empty());
  file[163] ^= 4;
  check_complaint(file, "bad arithmetic code");
}

TEST_CASE("a file on which somebody has a lease is read when the lease has ended", "[gluon][image]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "seven.png") << "7 bytes";
  leased = ::open((folder / "seven.png").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(leased >= 0);
  struct sigaction asked = {}, before = {};
  asked.sa_handler = [](int) { ::fcntl(leased, F_SETLEASE, F_UNLCK); };  // without SA_RESTART: open() ends with EINTR
  REQUIRE(sigaction(SIGIO, &asked, &before) == 0);
  const bool has_leases = ::fcntl(leased, F_SETLEASE, F_WRLCK) == 0;
  const auto put_back = [&] {
    ::close(leased);
    sigaction(SIGIO, &before, nullptr);
  };
  if (!has_leases) {
    put_back();
    SLUICE_SKIP("files here have no leases");
  }
  Bytes seven;
  CHECK_NOTHROW(seven = image::read_encoded(folder / "seven.png", 7));
  put_back();
  CHECK(std::string(seven.begin(), seven.end()) == "7 bytes");
}

TEST_CASE("what is no file of bytes is said so, and nobody waits for a pipe's other end", "[gluon][image]") {
  const TemporaryFolder folder;
  const auto refused = [](const std::filesystem::path& path, std::size_t most = 1 << 10) {
    try {
      image::read_encoded(path, most);
    } catch (const FileError& error) {
      CHECK(error.message().find(path.string() + ": ") == 0);
      return error.message().substr(path.string().size() + 2);
    }
    return std::string();
  };
  CHECK(refused(folder / "absent.png") == "there is no such file");
  CHECK(refused(folder.path()) == "it is not a regular file");
  REQUIRE(mkfifo((folder / "pipe.png").c_str(), 0600) == 0);
  CHECK(refused(folder / "pipe.png") == "it is not a regular file");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = (folder / "s.png").string();
  REQUIRE(name.size() < sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(socket >= 0);
  CHECK(bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(refused(folder / "s.png") == "it is not a regular file");
  close(socket);

  std::ofstream(folder / "seven.png") << "7 bytes";
  CHECK(refused(folder / "seven.png" / "in a file") == "there is no such file");
  CHECK(refused(folder / "seven.png", 6) == "7 bytes are more than the limit of 6");
  const Bytes seven = image::read_encoded(folder / "seven.png", 7);
  CHECK(std::string(seven.begin(), seven.end()) == "7 bytes");
  // The kernel gives a page for the size of a text of its own.
  if (const std::filesystem::path text = "/sys/kernel/uevent_seqnum"; std::filesystem::exists(text))
    CHECK_THAT(refused(text, 1 << 20), contains(" bytes: it is being written"));
  std::ofstream(folder / "none.png").flush();
  CHECK(image::read_encoded(folder / "none.png", 0).empty());
  const auto lowest_free = [] {
    const int number = dup(STDERR_FILENO);
    close(number);
    return number;
  };
  const int before = lowest_free();
  for (int i = 0; i < 100; ++i)
    refused(i % 2 == 0 ? folder / "seven.png" : folder.path(), 6);
  CHECK(lowest_free() < before + 50);  // other threads may open some; these are closed
}

TEST_CASE("damage behind the header surfaces where the pixels are used, with the file's name", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  TemporaryFolder folder;
  Bytes file = encoded_image("png_rgb");
  file[file.size() / 2] ^= 64;
  std::ofstream(folder / "bad.png", std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  const NDArray pixels = image::imread(folder / "bad.png");
  CHECK(pixels.shape() == Shape{11, 14, 3});
  try {
    pixels.to_vector<std::uint8_t>();
    FAIL("the damage went unseen");
  } catch (const FileError& error) {
    CHECK(std::string(error.what()).find("bad.png: ") != std::string::npos);
    CHECK(std::string(error.what()).find("test_image_hostile.cpp") != std::string::npos);
  }
}

TEST_CASE("no more memory is taken than the limit, and none for what the file cannot hold", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  const Bytes png = encoded_image("png_rgb");
  check_complaint(with_size(png, 1 << 23, 1 << 23), "cannot hold");
  check_complaint(with_size(png, 0x7fffffff, 0x7fffffff), "");
  check_complaint(with_size(png, 100, 100), "more than the limit of 30000", {.most_bytes = 30000});
  Bytes jpeg = encoded_image("jpeg_420");
  const std::size_t height = place_of_height(jpeg);
  REQUIRE(height > 0);
  for (std::size_t i = 0; i < 4; ++i)
    jpeg[height + i] = 0xff;
  check_complaint(jpeg, "Maximum supported image dimension");
  for (std::size_t i = 0; i < 4; i += 2)
    jpeg[height + i] = 0xf0;
  check_complaint(jpeg, "cannot hold");
  // To the byte: the pixels, and what the decoder takes for rows.
  const Bytes sound = encoded_image("jpeg_420");
  const std::size_t need = 11 * 14 * 3 + 14 * 4;
  CHECK(complaint(sound, {.most_bytes = need}).empty());
  check_complaint(sound, message("take ", need, " bytes"), {.most_bytes = need - 1});
  // Progressive files keep coefficients as well; turned ones a second image.
  check_complaint(encoded_image("jpeg_progressive"), "more than the limit", {.most_bytes = need});
  const Bytes turned = encoded_image("jpeg_turned");
  CHECK(complaint(turned, {.most_bytes = need}).empty());
  check_complaint(turned, "more than the limit", {.orient = true, .most_bytes = need});
}

TEST_CASE("what a PNG says beside its pixels is not unpacked", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  constexpr std::size_t k_text = 8'000'000, k_texts = 24;
  const Bytes text(k_text, 'a');
  Bytes chunk = {0, 0, 0, 0, 'z', 'T', 'X', 't', 'k', 0, 0};
  uLongf packed = compressBound(k_text);
  chunk.resize(11 + packed);
  REQUIRE(compress2(chunk.data() + 11, &packed, text.data(), k_text, 9) == Z_OK);
  chunk.resize(11 + packed + 4);
  for (std::size_t i = 0; i < 4; ++i)
    chunk[i] = static_cast<std::uint8_t>((packed + 3) >> (24 - 8 * i));
  Bytes file = encoded_image("png_rgb");
  const auto header_ends = file.begin() + 33;
  Bytes many;
  for (std::size_t i = 0; i < k_texts; ++i)
    many.insert(many.end(), chunk.begin(), chunk.end());
  file.insert(header_ends, many.begin(), many.end());
  mend_png(file);
  const std::size_t before = resident_bytes();
  const ImageDecoder decoder(file, {.most_bytes = 1 << 20});
  CHECK(decoder.shape().size() > 0);
  CHECK(resident_bytes() < before + k_text * k_texts / 4);
}

TEST_CASE("a JPEG of endless scans is refused", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  Bytes file = encoded_image("jpeg_progressive");
  // The last scan, from its marker on, again and again.
  std::size_t last = 0;
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == 0xff && file[i + 1] == 0xda)
      last = i;
  }
  REQUIRE(last > 0);
  const Bytes scan(file.begin() + static_cast<std::ptrdiff_t>(last), file.end() - 2);
  for (int i = 0; i < 200; ++i)
    file.insert(file.end() - 2, scan.begin(), scan.end());
  check_complaint(file, "more than 128 scans");
}

TEST_CASE("an image is decoded once", "[gluon][image]") {
  SLUICE_NEEDS_IMAGES();
  const Bytes file = encoded_image("png_16");
  ImageDecoder decoder(file, {.channels = 1});
  Bytes pixels(static_cast<std::size_t>(decoder.shape().size()));
  ImageDecoder moved = std::move(decoder);
  moved.decode(pixels.data());
  CHECK_THROWS_AS(moved.decode(pixels.data()), ValueError);
  CHECK_THROWS_AS(decoder.decode(pixels.data()), ValueError);
}
