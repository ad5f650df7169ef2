// What libFuzzer calls: tests/fuzz/run links it. SLUICE_FUZZ_READER names the reader; with SLUICE_FUZZ_EXAMPLES the
// program writes good files of its kind there, and ends.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "tests/fuzz/readers.h"

namespace {

using namespace sluice::fuzz;

const Reader& chosen() {
  static const Reader reader = [] {
    const char* const name = std::getenv("SLUICE_FUZZ_READER");
    for (const Reader& one : all_readers()) {
      if (name != nullptr && one.name == name)
        return one;
    }
    std::fprintf(stderr, "no reader of the name '%s'\n", name == nullptr ? "" : name);
    std::exit(2);
  }();
  return reader;
}

const Path& folder() {
  static const Path made = [] {
    Path path = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
    path /= "sluice-fuzz-" + std::to_string(getpid());
    std::filesystem::create_directories(path);
    std::atexit([] { std::filesystem::remove_all(folder()); });
    return path;
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  if (const char* const examples = std::getenv("SLUICE_FUZZ_EXAMPLES")) {
    chosen().write(examples);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_bytes(chosen(), {data, size}, true, folder());
  return 0;
}
