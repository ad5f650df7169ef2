#include <algorithm>
#include <array>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/byte_source.h>
#include <sluice/gluon/data/idx.h>

namespace sluice::gluon::data {

namespace {

constexpr std::uint8_t k_unsigned_byte = 0x08;
constexpr std::size_t k_step_bytes = std::size_t{16} << 20;

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

void read_header_bytes(detail::ByteSource& source, const std::string& file, std::uint8_t* to, std::size_t n) {
  require<FileError>(source.read(to, n) == n, [&] { return message(file, ": truncated inside its header"); });
}

std::vector<std::int64_t> read_shape(detail::ByteSource& source, const std::string& file, int axes) {
  std::array<std::uint8_t, 4> magic{};
  read_header_bytes(source, file, magic.data(), magic.size());
  require<FileError>(magic[0] == 0 && magic[1] == 0, [&] {
    return message(file, ": not an IDX file (its magic number is ", big_endian(magic.data()), ")");
  });
  require<FileError>(magic[2] == k_unsigned_byte, [&] {
    return message(file, ": holds IDX type ", int{magic[2]}, ", not unsigned bytes (8)");
  });
  require<FileError>(magic[3] == axes, [&] { return message(file, ": has ", int{magic[3]}, " axes, not ", axes); });
  std::vector<std::int64_t> shape;
  for (int axis = 0; axis < axes; ++axis) {
    std::array<std::uint8_t, 4> extent{};
    read_header_bytes(source, file, extent.data(), extent.size());
    shape.push_back(big_endian(extent.data()));
  }
  return shape;
}

std::uint64_t count_values(const std::vector<std::int64_t>& shape, const std::string& file) {
  std::uint64_t n = 1;
  for (std::int64_t extent : shape) {
    require<FileError>(!__builtin_mul_overflow(n, static_cast<std::uint64_t>(extent), &n), [&] {
      return message(file, ": its header claims more values than can be");
    });
  }
  return n;
}

}  // namespace

IdxFile read_idx(const std::filesystem::path& path, int axes) {
  const std::string file = path.string();
  detail::ByteSource source(path);
  IdxFile idx{.shape = read_shape(source, file, axes), .values = {}};
  const std::uint64_t n = count_values(idx.shape, file);
  const auto truncated = [&] {
    return message(file, ": truncated: its header claims ", n, " values, there are ", idx.values.size());
  };
  if (n > source.most_bytes())
    throw FileError(message(file, ": truncated: its header claims ", n, " values, more than the file can hold"));
  while (idx.values.size() < n) {
    const std::size_t have = idx.values.size();
    const std::size_t step = std::min<std::uint64_t>(n - have, k_step_bytes);
    idx.values.resize(have + step);
    const std::size_t got = source.read(idx.values.data() + have, step);
    idx.values.resize(have + got);
    require<FileError>(got == step, truncated);
  }
  std::uint8_t extra = 0;
  require<FileError>(source.read(&extra, 1) == 0, [&] {
    return message(file, ": there are bytes after the ", n, " values that its header claims");
  });
  return idx;
}

}  // namespace sluice::gluon::data
