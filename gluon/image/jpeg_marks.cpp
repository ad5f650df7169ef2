#include <cstring>

#include <sluice/gluon/image/detail/gpu_decoding.h>

namespace sluice::image::detail {

namespace {

constexpr std::uint8_t k_mark = 0xff, k_end = 0xd9, k_scan = 0xda, k_restart = 0xd0, k_alone = 0x01;

bool is_restart(std::uint8_t code) {
  return (code & 0xf8) == k_restart;
}

/// Where the mark begins that ends the scan's data from `at` on; the file's end if none does, or if restart marks are
/// out of order.
std::size_t end_of_scan(std::span<const std::uint8_t> file, std::size_t at) {
  std::uint8_t next_restart = k_restart;
  while (at + 1 < file.size()) {
    const void* const found = std::memchr(file.data() + at, k_mark, file.size() - 1 - at);
    if (found == nullptr)
      break;
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - file.data());
    const std::uint8_t code = file[at + 1];
    if (is_restart(code)) {
      if (code != next_restart)
        break;
      next_restart = static_cast<std::uint8_t>(k_restart | ((code + 1) & 7));
    } else if (code != 0 && code != k_mark) {
      return at;
    }
    at += code == k_mark ? 1 : 2;
  }
  return file.size();
}

}  // namespace

bool is_whole_jpeg(std::span<const std::uint8_t> file) noexcept {
  for (std::size_t at = 2; at + 1 < file.size();) {
    if (file[at] != k_mark)
      return false;
    const std::uint8_t code = file[at + 1];
    if (code == k_mark) {  // fills up
      ++at;
      continue;
    }
    if (code == k_end)
      return true;
    if (code == 0 || code == k_alone || is_restart(code) || at + 4 > file.size())
      return false;
    const std::size_t length = std::size_t{file[at + 2]} << 8 | std::size_t{file[at + 3]};
    if (length < 2 || length > file.size() - at - 2)
      return false;
    at += 2 + length;
    if (code == k_scan)
      at = end_of_scan(file, at);
  }
  return false;
}

}  // namespace sluice::image::detail
