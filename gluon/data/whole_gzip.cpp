#include <sluice/gluon/data/whole_gzip.h>

#ifdef SLUICE_LIBDEFLATE

#include <libdeflate.h>
#include <new>

namespace sluice::gluon::data::detail {

namespace {

constexpr std::uint64_t k_least_bytes = 18;  // a header of ten and a trailer of eight

using Decompressor = std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)>;
using Bytes = std::unique_ptr<std::uint8_t[]>;

// Not set to zero, which is as much work as reading; null where there is no memory.
Bytes uninitialised(std::uint64_t bytes) {
  return Bytes(new (std::nothrow) std::uint8_t[bytes]);
}

// The last four bytes of a member: its size, modulo 2^32.
std::uint64_t claimed_size(const std::uint8_t* end) {
  return std::uint64_t{end[-4]} | std::uint64_t{end[-3]} << 8 | std::uint64_t{end[-2]} << 16 |
         std::uint64_t{end[-1]} << 24;
}

}  // namespace

Unpacked unpack_whole(std::ifstream& file, std::uint64_t file_bytes, std::uint64_t most_bytes) {
  if (file_bytes < k_least_bytes)
    return {};
  const Bytes packed = uninitialised(file_bytes);
  const auto count = static_cast<std::streamsize>(file_bytes);
  if (packed == nullptr || !file.read(reinterpret_cast<char*>(packed.get()), count))
    return {};
  const std::uint64_t size = claimed_size(packed.get() + file_bytes);
  if (size > most_bytes)
    return {};
  Unpacked unpacked{.bytes = uninitialised(size), .size = size};
  const Decompressor decompressor(libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  if (unpacked.bytes == nullptr || decompressor == nullptr)
    return {};
  std::size_t taken = 0, made = 0;
  const libdeflate_result result = libdeflate_gzip_decompress_ex(
      decompressor.get(), packed.get(), file_bytes, unpacked.bytes.get(), size, &taken, &made);
  return result == LIBDEFLATE_SUCCESS && taken == file_bytes && made == size ? std::move(unpacked) : Unpacked();
}

}  // namespace sluice::gluon::data::detail

#else

namespace sluice::gluon::data::detail {

Unpacked unpack_whole(std::ifstream&, std::uint64_t, std::uint64_t) {
  return {};
}

}  // namespace sluice::gluon::data::detail

#endif
