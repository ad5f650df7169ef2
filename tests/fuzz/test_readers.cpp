// Every reader that tests/fuzz/run gives to libFuzzer, with some hundred changes of good files: the same code, without
// a search for what is new.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/readers.h"
#include "tests/gluon/support.h"
#include "tests/support/catch.h"

using namespace sluice::fuzz;

namespace {

Bytes bytes_of(const Path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Bytes changed(Bytes bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (std::size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    const std::size_t at = below(bytes.size());
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(4)) {
      case 0:
        *place = static_cast<std::uint8_t>(random());
        break;
      case 1:
        *place = static_cast<std::uint8_t>(*place ^ (1U << below(8)));
        break;
      case 2:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(1 + below(std::min<std::size_t>(8, bytes.size() - at))));
        break;
      default:
        bytes.insert(place, 1 + below(8), below(2) == 0 ? std::uint8_t{0xff} : *place);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("Readers take what was written for them, and end changed files by errors alone", "[fuzz]") {
  std::mt19937_64 random(7);
  for (const Reader& reader : all_readers()) {
    CAPTURE(reader.name);
    const sluice::test::TemporaryFolder good(sluice::test::quick_folder()), bad(sluice::test::quick_folder());
    reader.write(good.path());
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(good.path())) {
      ++files;
      CAPTURE(entry.path());
      CHECK_NOTHROW(reader.read(entry.path()));
      const Bytes bytes = bytes_of(entry.path());
      for (int i = 0; i < 100; ++i)
        CHECK_NOTHROW(read_bytes(reader, changed(bytes, random), i % 2 == 0, bad.path()));
    }
    CHECK(files > 0);
  }
}
