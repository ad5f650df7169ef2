// .npz files: round trips, files of NumPy's, and files that are damaged or meant to do harm.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/bytes.h>
#include <sluice/ndarray/detail/npy.h>
#include <sluice/ndarray/detail/zip.h>

#include "tests/ndarray/npz_fixtures.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// What the system says of data on their way to a disk; 0: what it does say.
std::atomic<int> planted_fsync_error{0};

}  // namespace

// Found before the C library's.
extern "C" int fsync(int file) {
  if (planted_fsync_error == 0)
    return static_cast<int>(syscall(SYS_fsync, file));
  errno = planted_fsync_error;
  return -1;
}

namespace {

/// A folder of the test's own, removed at its end.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("sluice-npz-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path operator/(const char* name) const { return path / name; }
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path))
      ++count;
    return count;
  }
};

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

std::map<std::string, NDArray> load_hex(const Folder& folder, std::string_view hex) {
  write_file(folder / "fixture.npz", bytes_of_hex(hex));
  return load(folder / "fixture.npz");
}

/// A .npz of one member with a header of the caller's making.
void write_member(const std::filesystem::path& path, const std::string& dict, std::size_t data) {
  std::string npy = "\x93NUMPY";
  npy += '\1';
  npy += '\0';
  detail::append_little<std::uint16_t>(npy, static_cast<std::uint16_t>(dict.size()));
  npy += dict + std::string(data, '\0');
  detail::ZipWriter zip(path);
  zip.add("x.npy", detail::bytes_of(npy), {});
  zip.finish();
}

}  // namespace

TEST_CASE("Arrays of every type and shape come back from a file as they were") {
  const Folder folder;
  std::map<std::string, NDArray> arrays{{"scalar", full({}, 3)}, {"empty", zeros({0, 4})}};
  for (DType type = bool_; type <= uint64; type = static_cast<DType>(static_cast<int>(type) + 1))
    arrays.emplace(
        "layer." + std::string(name_of(type)),
        from_values(std::vector<double>{0, 1, 2.5, 100, 0.1, 7}.data(), float64, 6, {2, 3}, {.dtype = type}));
  arrays.emplace(
      "gr\xc3\xb6\xc3\x9f"
      "e",
      ones({1}));
  save(folder / "a.npz", arrays);
  REQUIRE(folder.files() == 1);
  const auto loaded = load(folder / "a.npz");
  REQUIRE(loaded.size() == arrays.size());
  for (const auto& [name, array] : arrays) {
    CAPTURE(name);
    const NDArray& back = loaded.at(name);
    REQUIRE(back.dtype() == array.dtype());
    REQUIRE(back.shape() == array.shape());
    REQUIRE(back.to_vector<double>() == array.to_vector<double>());
  }
  save(folder / "b.npz", {});
  REQUIRE(load(folder / "b.npz").empty());
}

TEST_CASE("Files of NumPy are read: stored, deflated, Fortran order, big endian, header versions 1 to 3") {
  const Folder folder;
  auto stored = load_hex(folder, k_numpy_stored);
  REQUIRE(stored.size() == 2);
  REQUIRE(stored.at("a").shape() == Shape{2, 3});
  REQUIRE(stored.at("a").to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  REQUIRE(stored.at("flag").to_vector<bool>() == std::vector<bool>{true, false});

  auto deflated = load_hex(folder, k_numpy_deflated);
  REQUIRE(deflated.at("a").dtype() == int32);
  REQUIRE(deflated.at("a").to_vector<int>() == arange(0, 600).to_vector<int>());
  REQUIRE(deflated.at("b").shape() == Shape{});
  REQUIRE(deflated.at("b").item<double>() == 2.5);

  auto odd = load_hex(folder, k_numpy_odd);
  REQUIRE(odd.at("fortran").shape() == Shape{2, 3, 4});
  REQUIRE(odd.at("fortran").to_vector<int>() == arange(0, 24).to_vector<int>());
  REQUIRE(odd.at("big").to_vector<double>() == std::vector<double>{1.5, -2, 3});
  REQUIRE(odd.at("half").dtype() == float16);
  REQUIRE(odd.at("half").to_vector<float>() == std::vector<float>{0.5, 1});
  REQUIRE(odd.at("two").to_vector<int>() == std::vector<int>{1, 2});
  REQUIRE(odd.at("three").to_vector<int>() == std::vector<int>{-1, 2});
  REQUIRE(odd.at("empty").shape() == Shape{0, 3});
}

TEST_CASE("A single .npy file is read, by whatever name") {
  const Folder folder;
  for (const char* name : {"weights.npy", "values"}) {
    const std::string head = detail::format_npy_header("<f4", {2, 3});
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    std::vector<std::byte> file;
    for (const auto part : {detail::bytes_of(head), std::as_bytes(std::span(values))})
      file.insert(file.end(), part.begin(), part.end());
    write_file(folder / name, file);
    const auto loaded = load(folder / name);
    REQUIRE(loaded.size() == 1);
    CHECK(loaded.begin()->first == std::filesystem::path(name).stem().string());
    CHECK(loaded.begin()->second.shape() == Shape{2, 3});
    CHECK(loaded.begin()->second.to_vector<float>() == values);
    for (std::size_t length = 0; length < file.size(); ++length) {
      write_file(folder / name, std::span(file).first(length));
      CHECK_THROWS_AS(load(folder / name), FileError);
    }
    CHECK_THROWS_WITH(load(folder / name), contains(name));
  }
}

TEST_CASE("A member with more axes than an array can have is left out, and the others are read") {
  const Folder folder;
  const std::vector<float> values{1, 2};
  {
    detail::ZipWriter zip(folder / "axes.npz");
    const std::string few = detail::format_npy_header("<f4", {2});
    std::string many = few;
    many.replace(many.find("(2,), }"), 31, "(1,1,1,1,1,1,1,2,1,), }        ");
    zip.add("a.npy", detail::bytes_of(few), std::as_bytes(std::span(values)));
    zip.add("nine.npy", detail::bytes_of(many), std::as_bytes(std::span(values)));
    zip.add("z.npy", detail::bytes_of(few), std::as_bytes(std::span(values)));
    zip.finish();
  }
  std::vector<std::string> left_out{"of before"};
  const auto loaded = load(folder / "axes.npz", cpu(), &left_out);
  CHECK(loaded.size() == 2);
  CHECK(loaded.at("a").to_vector<float>() == values);
  CHECK(loaded.at("z").to_vector<float>() == values);
  CHECK(left_out == std::vector<std::string>{"nine"});
  CHECK(load(folder / "axes.npz").size() == 2);  // and it is said
}

TEST_CASE("Foreign files are refused, and the error names the file and what is wrong with it") {
  const Folder folder;
  REQUIRE_THROWS_WITH(load(folder / "none.npz"), contains("none.npz: there is no such file"));
  REQUIRE_THROWS_WITH(load(folder.path), contains("not a regular file"));
  REQUIRE_THROWS_WITH(load_hex(folder, k_numpy_complex), contains("\"x\": its type c8"));
  REQUIRE_THROWS_WITH(load_hex(folder, k_no_npy), contains("readme.txt"));
  REQUIRE_THROWS_WITH(load_hex(folder, ""), contains("not a zip archive"));
  REQUIRE_THROWS_AS(load_hex(folder, "89504e470d0a1a0a0000000d49484452"), FileError);
  REQUIRE_THROWS_AS(save(folder / "no/such/folder.npz", {{"x", ones({1})}}), FileError);
  REQUIRE_THROWS_AS(save(folder / "x.npz", {{"x", NDArray()}}), ValueError);
  REQUIRE_THROWS_AS(
      save(folder / "x.npz", {{"x", ones({1}, {.dtype = bfloat16})}, {"x.dtype", ones({1})}}), ValueError);
}

TEST_CASE("A save that fails leaves the old file and nothing else") {
  const Folder folder;
  save(folder / "x.npz", {{"x", ones({3})}});
  const auto before = read_file(folder / "x.npz");
  const NDArray spoilt = ones({2});
  spoilt.engine().push(
      {.name = "spoil", .access = {write(spoilt.object()->buffer->var())}}, [] { throw ValueError("spoilt"); });
  REQUIRE_THROWS_AS(save(folder / "x.npz", {{"a", ones({1})}, {"x", spoilt}}), ValueError);
  REQUIRE(read_file(folder / "x.npz") == before);
  REQUIRE(folder.files() == 1);
}

TEST_CASE("A file is written whole or not at all") {
  const Folder folder;
  const auto text_of = [&] {
    const auto bytes = read_file(folder / "page");
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto with = [](const char* text) { return [text](const auto& draft) { std::ofstream(draft) << text; }; };
  write_whole(folder / "page", with("first"));
  write_whole(folder / "page", with("second"));
  CHECK(text_of() == "second");
  const auto half = [&](const std::filesystem::path& draft) {
    with("half")(draft);
    CHECK(text_of() == "second");
    throw ValueError("no more");
  };
  CHECK_THROWS_WITH(write_whole(folder / "page", half), contains("no more"));
  CHECK_THROWS_WITH(write_whole(folder / "page", [](const auto&) {}), contains("page: cannot be written"));
  CHECK(text_of() == "second");
  CHECK(folder.files() == 1);
}

TEST_CASE("Into a pipe or a device is written; neither is replaced by a file") {
  const Folder folder;
  const std::filesystem::path pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  for (const auto& name : {pipe, folder / "link"}) {
    // Opened for both, so that nobody waits for the other end; a pipe holds 4 KiB without a reader.
    const int held = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK);
    REQUIRE(held >= 0);
    save(name, {{"x", ones({3})}});
    std::vector<std::byte> bytes(4096);
    const auto length = ::read(held, bytes.data(), bytes.size());
    ::close(held);
    REQUIRE(length > 0);
    bytes.resize(static_cast<std::size_t>(length));
    write_file(folder / "copy.npz", bytes);
    CHECK(load(folder / "copy.npz").at("x").to_vector<float>() == std::vector<float>{1, 1, 1});
    CHECK(std::filesystem::is_fifo(pipe));
    CHECK(std::filesystem::is_symlink(folder / "link"));
  }
  std::filesystem::create_symlink("/dev/full", folder / "full");
  CHECK_THROWS_AS(save(folder / "full", {{"x", ones({3})}}), FileError);
  CHECK(std::filesystem::is_symlink(folder / "full"));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("A file cut anywhere is refused") {
  const Folder folder;
  for (const std::string_view fixture : {k_numpy_stored, k_numpy_odd, k_numpy_integers}) {
    const auto whole = bytes_of_hex(fixture);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      CAPTURE(length);
      write_file(folder / "cut.npz", std::span(whole).first(length));
      REQUIRE_THROWS_AS(load(folder / "cut.npz"), FileError);
    }
  }
}

TEST_CASE("A file with any byte changed is refused or read, and never harms") {
  const Folder folder;
  for (const std::string_view fixture : {k_numpy_stored, k_numpy_odd, k_numpy_integers}) {
    const auto whole = bytes_of_hex(fixture);
    std::size_t refused = 0;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
        auto changed = whole;
        changed[at] ^= static_cast<std::byte>(mask);
        write_file(folder / "changed.npz", changed);
        try {
          load(folder / "changed.npz");
        } catch (const FileError&) {
          ++refused;
        }
      }
    }
    REQUIRE(refused > whole.size());
  }
}

TEST_CASE("A number changed in a file is told by its checksum") {
  const Folder folder;
  save(folder / "x.npz", {{"x", full({64}, 1.5)}});
  const auto whole = read_file(folder / "x.npz");
  const float value = 1.5f;
  const auto first = std::search(
      whole.begin(),
      whole.end(),
      std::as_bytes(std::span(&value, 1)).begin(),
      std::as_bytes(std::span(&value, 1)).end());
  REQUIRE(first != whole.end());
  for (std::size_t at = 0; at < 64 * sizeof(float); ++at) {
    auto changed = whole;
    changed[static_cast<std::size_t>(first - whole.begin()) + at] ^= std::byte{0x10};
    write_file(folder / "changed.npz", changed);
    REQUIRE_THROWS_WITH(load(folder / "changed.npz"), contains("\"x.npy\" has a wrong checksum"));
  }
}

TEST_CASE("Archives say at once and at the end that the disk is full") {
  const std::vector<std::byte> large(1 << 22), small(16);
  detail::ZipWriter at_once("/dev/full");
  CHECK_THROWS_WITH(at_once.add("x", small, large), contains("/dev/full: cannot be written: No space left on device"));
  detail::ZipWriter at_the_end("/dev/full");
  at_the_end.add("x", small, small);
  CHECK_THROWS_WITH(at_the_end.finish(), contains("/dev/full: cannot be written: No space left on device"));
}

TEST_CASE("Headers that lie about shapes and types are refused before memory is asked for") {
  const Folder folder;
  const auto check = [&](const std::string& dict, std::size_t data) {
    CAPTURE(dict);
    write_member(folder / "x.npz", dict, data);
    REQUIRE_THROWS_AS(load(folder / "x.npz"), FileError);
  };
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 16);
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", 16);
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 16);
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }", 16);
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 16);
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 4);
  check("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}", 16);
  check("{'descr': '<f4', 'fortran_order': Falsch, 'shape': (4,), }", 16);
  check("{'descr': '<f4', 'fortran_order': False, }", 16);
  check("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }", 16);
  check("{'descr': '<f4, 'fortran_order': False, 'shape': (4,), }", 16);
  check("{'descr': '|O8', 'fortran_order': False, 'shape': (2,), }", 16);
  check("{'descr': '|S4', 'fortran_order': False, 'shape': (), }", 4);
  check("{'descr': '<u3', 'fortran_order': False, 'shape': (2,), }", 6);
  check("{'descr': '<u8', 'fortran_order': False, 'shape': (2305843009213693952,), }", 16);
  check("", 0);
  write_member(folder / "x.npz", "{\"shape\": ( 4 , ), \"descr\": '<f4', 'fortran_order': True}  \n", 16);
  REQUIRE(load(folder / "x.npz").at("x").to_vector<float>() == std::vector<float>(4, 0));
}

TEST_CASE("Sizes beyond 32 bits take the zip64 form, which is read back") {
  const Folder folder;
  const std::string head = detail::format_npy_header("<f4", {3});
  const std::vector<float> values{1, 2, 3};
  {
    detail::ZipWriter zip(folder / "z.npz", 0);
    for (const char* name : {"a.npy", "b.npy"})
      zip.add(name, detail::bytes_of(head), std::as_bytes(std::span(values)));
    zip.finish();
  }
  const auto loaded = load(folder / "z.npz");
  REQUIRE(loaded.at("a").to_vector<float>() == values);
  REQUIRE(loaded.at("b").to_vector<float>() == values);
  const auto whole = read_file(folder / "z.npz");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(folder / "cut.npz", std::span(whole).first(length));
    REQUIRE_THROWS_AS(load(folder / "cut.npz"), FileError);
  }
}

TEST_CASE("Names that occur twice are refused") {
  const Folder folder;
  const std::string head = detail::format_npy_header("|u1", {0});
  detail::ZipWriter zip(folder / "twice.npz");
  zip.add("x.npy", detail::bytes_of(head), {});
  zip.add("x.npy", detail::bytes_of(head), {});
  zip.finish();
  REQUIRE_THROWS_WITH(load(folder / "twice.npz"), contains("there twice"));
}

TEST_CASE("Arrays are saved from a GPU and loaded onto it", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Folder folder;
  const NDArray a = arange(0, 1000, 1, {.device = gpu(0)});
  save(folder / "g.npz", {{"a", a}});
  const auto loaded = load(folder / "g.npz", gpu(0));
  REQUIRE(loaded.at("a").device() == gpu(0));
  REQUIRE(loaded.at("a").to_vector<float>() == a.to_vector<float>());
}

TEST_CASE("A file whose content does not get to the disk is an error, and the one before stays") {
  Folder folder;
  save(folder / "x.npz", {{"x", ones({2})}});
  for (const int error : {EIO, ENOSPC}) {
    planted_fsync_error = error;
    CHECK_THROWS_AS(save(folder / "x.npz", {{"x", zeros({2})}}), FileError);
    planted_fsync_error = 0;
    CHECK(load(folder / "x.npz").at("x").to_vector<float>() == std::vector<float>{1, 1});
    CHECK(folder.files() == 1);
  }
  planted_fsync_error = EINVAL;  // a file system that has no such thing
  CHECK_NOTHROW(save(folder / "x.npz", {{"x", zeros({2})}}));
  planted_fsync_error = 0;
  CHECK(load(folder / "x.npz").at("x").to_vector<float>() == std::vector<float>{0, 0});
}
