#pragma once

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/engine/error.h>
#include <sluice/ndarray/create.h>

namespace sluice::gluon::formats {

static_assert(std::endian::native == std::endian::little, "numbers are read and written as they lie in memory");

template <class T>
void append_number(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// A file in memory, to be read. Throws FileError naming it.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) : path_(path.string()) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about {};
    const bool is_open = file >= 0 && ::fstat(file, &about) == 0;
    const int why = errno;
    if (is_open && S_ISREG(about.st_mode) && about.st_size > 0) {
      void* const memory = ::mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (memory != MAP_FAILED)
        bytes_ = {static_cast<const std::byte*>(memory), static_cast<std::size_t>(about.st_size)};
    }
    if (file >= 0)
      ::close(file);
    require<FileError>(is_open, [&] { return message(path_, ": cannot be read: ", std::strerror(why)); });
    require<FileError>(!bytes_.empty(), [&] { return message(path_, ": is empty, or no file that can be mapped"); });
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (!bytes_.empty())
      ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[noreturn]] void fail(std::string_view what) const { throw FileError(message(path_, ": ", what)); }

 private:
  std::string path_;
  std::span<const std::byte> bytes_ = {};
};

/// What is left of a file, taken from the front.
class ByteCursor {
 public:
  explicit ByteCursor(const MappedFile& file) : file_(file), rest_(file.bytes()) {}

  bool empty() const noexcept { return rest_.empty(); }
  std::size_t left() const noexcept { return rest_.size(); }
  std::span<const std::byte> take(std::uint64_t bytes, std::string_view what) {
    if (bytes > rest_.size())
      file_.fail(message("ends within ", what, ": it has ", rest_.size(), " of ", bytes, " bytes"));
    const auto taken = rest_.first(static_cast<std::size_t>(bytes));
    rest_ = rest_.subspan(static_cast<std::size_t>(bytes));
    return taken;
  }
  /// A little-endian number.
  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string text(std::uint64_t length, std::string_view what) {
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  const MappedFile& file_;
  std::span<const std::byte> rest_;
};

/// Values that fit the shape as an array; bytes of bools count as true unless they are 0.
inline NDArray array_of(std::span<const std::byte> values, const Shape& shape, DType dtype, Device device) {
  const DType as = dtype == bool_ ? uint8 : dtype;
  const NDArray array = from_values(values.data(), as, shape.size(), shape, {.dtype = as, .device = device});
  return dtype == bool_ ? array.astype(bool_) : array;
}

}  // namespace sluice::gluon::formats
