#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sluice/engine/error.h>
#include <sluice/gluon/image/image.h>

namespace sluice::image {

namespace {

// A file open for reading. One call to open it and one to ask for its size: of small files the rest of what a stream
// does takes as long as decoding them.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) noexcept : number_(opened(path.c_str())) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (number_ >= 0)
      ::close(number_);
  }

  bool is_open() const noexcept { return number_ >= 0; }
  bool describe(struct stat& to) const noexcept { return ::fstat(number_, &to) == 0; }
  // How many of n bytes there were; -1 for an error, which errno names.
  ssize_t read(std::uint8_t* to, std::size_t n) const noexcept {
    std::size_t done = 0;
    while (done < n) {
      const ssize_t got = ::read(number_, to + done, n - done);
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0)
        return -1;
      if (got == 0)
        break;
      done += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(done);
  }

 private:
  // Without waiting for a writer, if it is a pipe.
  static int opened(const char* path) noexcept {
    for (int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;;) {
      const int number = ::open(path, flags);
      if (number >= 0)
        return number;
      if (errno == EWOULDBLOCK && (flags & O_NONBLOCK) != 0)
        flags &= ~O_NONBLOCK;  // another program has a lease on it, as on regular files alone, and is asked to end it
      else if (errno != EINTR)
        return -1;
    }
  }

  int number_;
};

}  // namespace

std::vector<std::uint8_t> read_encoded(const std::filesystem::path& path, std::size_t most) {
  const auto fail = [&](const std::string& what) { throw FileError(message(path.string(), ": ", what)); };
  const OpenFile file(path);
  if (!file.is_open()) {
    const int why = errno;
    if (why == ENOENT || why == ENOTDIR)
      fail("there is no such file");
    if (why == ENXIO)  // a socket
      fail("it is not a regular file");
    fail(message("it cannot be opened for reading: ", std::strerror(why)));
  }
  struct stat facts = {};
  if (!file.describe(facts) || !S_ISREG(facts.st_mode))
    fail("it is not a regular file");
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (size > most)
    fail(message(size, " bytes are more than the limit of ", most));
  std::vector<std::uint8_t> bytes(size);
  const ssize_t got = file.read(bytes.data(), bytes.size());
  if (got < 0)
    fail(message("reading it failed: ", std::strerror(errno)));
  if (static_cast<std::uint64_t>(got) < size)
    fail(message("it ends after ", got, " of ", size, " bytes: it is being written"));
  return bytes;
}

}  // namespace sluice::image
