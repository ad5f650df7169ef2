#include "tests/fuzz/readers.h"

#include <fstream>

#include <sluice/engine/error.h>

namespace sluice::fuzz {

std::vector<Reader> all_readers() {
  std::vector<Reader> all = array_readers();
  for (const auto& more : {program_readers(), data_readers()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

void read_bytes(const Reader& reader, std::span<const std::uint8_t> bytes, bool repair, const Path& folder) {
  Bytes own(bytes.begin(), bytes.end());
  if (repair && reader.repair)
    reader.repair(own);
  const Path file = folder / ("hostile" + reader.ending);
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(own.data()), std::ssize(own));
  try {
    reader.read(file);
  } catch (const Error&) {  // as it should be
  }
}

}  // namespace sluice::fuzz
