// Members of archives that other programs write otherwise than we do, and files of other kinds.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/bytes.h>
#include <sluice/ndarray/detail/npy.h>
#include <sluice/ndarray/detail/zip.h>

#include "tests/ndarray/npz_fixtures.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A path of the test's own, where nothing is at its end.
struct File {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("sluice-zip-" + std::to_string(::getpid()) + ".npz");
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::filesystem::remove(path); }
};

/// The first member's sizes moved to a zip64 field of the directory, as of members beyond 4 GiB.
std::vector<std::byte> with_zip64_sizes(std::vector<std::byte> file) {
  const auto put = [&](std::size_t at, auto value) { std::memcpy(file.data() + at, &value, sizeof value); };
  const std::size_t end = file.size() - 22, first = detail::little_at<std::uint32_t>(file, end + 16);
  std::string extra;
  detail::append_little<std::uint16_t>(extra, 1);
  detail::append_little<std::uint16_t>(extra, 16);
  detail::append_little<std::uint64_t>(extra, detail::little_at<std::uint32_t>(file, first + 24));  // unpacked
  detail::append_little<std::uint64_t>(extra, detail::little_at<std::uint32_t>(file, first + 20));
  put(first + 20, ~std::uint64_t{0});
  put(first + 30, static_cast<std::uint16_t>(extra.size()));
  put(end + 12, static_cast<std::uint32_t>(detail::little_at<std::uint32_t>(file, end + 12) + extra.size()));
  const std::size_t behind_name = first + 46 + detail::little_at<std::uint16_t>(file, first + 28);
  const auto added = detail::bytes_of(extra);
  file.insert(file.begin() + static_cast<std::ptrdiff_t>(behind_name), added.begin(), added.end());
  return file;
}

}  // namespace

TEST_CASE("A deflated member whose sizes take the zip64 form is read") {
  const File file;
  const std::vector<std::byte> bytes = with_zip64_sizes(bytes_of_hex(k_numpy_deflated));
  std::ofstream(file.path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const auto loaded = load(file.path);
  CHECK(loaded.at("a").to_vector<int>() == arange(0, 600).to_vector<int>());
  CHECK(loaded.at("b").item<double>() == 2.5);
}

TEST_CASE("A truth of a file is any byte that is not 0") {
  const File file;
  const std::byte values[] = {std::byte{0}, std::byte{2}, std::byte{255}};
  detail::ZipWriter zip(file.path);
  zip.add("x.npy", detail::bytes_of(detail::format_npy_header("|b1", {3})), values);
  zip.finish();
  const NDArray x = load(file.path).at("x");
  CHECK(x.to_vector<int>() == std::vector<int>{0, 1, 1});
  CHECK(x.dtype() == bool_);
}

TEST_CASE("Text in a .npy, and files of other kinds, are told for what they are") {
  const File file;
  const auto said_of = [&](const std::string& bytes) {
    std::ofstream(file.path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    try {
      load(file.path);
    } catch (const FileError& error) {
      return error.message();
    }
    return std::string("nothing");
  };
  for (const char* type : {"<U5", ">U5"})
    CHECK_THAT(
        said_of(detail::format_npy_header(type, {2}) + std::string(40, '\0')),
        contains("it holds text, and strings are not read"));
  CHECK_THAT(said_of(detail::format_npy_header("|S4", {2}) + "aaaabbbb"), contains("it holds text"));
  CHECK_THAT(said_of(detail::format_npy_header("<U4611686018427387904", {2})), contains("bytes"));
  using namespace std::string_literals;
  CHECK_THAT(said_of("\x12\x01\0\0\0\0\0\0\0\0\0\0"s), contains("gluon::formats::load_mxnet()"));
  CHECK_THAT(said_of("\x08\0\0\0\0\0\0\0{}      "s), contains("gluon::formats::load_safetensors()"));
  CHECK_THAT(said_of("{\"a\": 1}"), contains("not a zip archive"));
}
