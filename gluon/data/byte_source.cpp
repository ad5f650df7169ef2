#include <algorithm>
#include <cstring>

#include <zlib.h>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/byte_source.h>

namespace sluice::gluon::data::detail {

namespace {
constexpr std::size_t k_buffer_bytes = 1 << 16;
constexpr int k_gzip_only = 16 + MAX_WBITS;
constexpr std::uint64_t k_most_packed = 1032;  // deflate packs no more into one byte
}  // namespace

ByteSource::ByteSource(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    fail("there is no such file");
  if (!std::filesystem::is_regular_file(path, ignored))
    fail("it is not a regular file");
  file_.open(path, std::ios::binary);
  if (!file_)
    fail("it cannot be opened for reading");
  file_bytes_ = std::filesystem::file_size(path, ignored);
  const bool packed = file_.get() == 0x1f && file_.get() == 0x8b;
  rewind();
  if (!packed)
    return;
  unpacked_ = unpack_whole(file_, file_bytes_, file_bytes_ * k_most_packed);
  if (unpacked_.bytes != nullptr)
    return;
  rewind();
  buffer_.resize(k_buffer_bytes);
  unpacker_ = std::make_unique<z_stream_s>();
  if (inflateInit2(unpacker_.get(), k_gzip_only) != Z_OK) {
    unpacker_.reset();
    fail("zlib could not be started");
  }
}

ByteSource::~ByteSource() {
  if (unpacker_ != nullptr)
    inflateEnd(unpacker_.get());
}

void ByteSource::rewind() {
  file_.clear();
  file_.seekg(0);
}

void ByteSource::fail(const char* what) const {
  throw FileError(message(path_.string(), ": ", what));
}

std::uint64_t ByteSource::most_bytes() const noexcept {
  return unpacked_.bytes != nullptr ? unpacked_.size : unpacker_ != nullptr ? file_bytes_ * k_most_packed : file_bytes_;
}

std::size_t ByteSource::read(std::uint8_t* to, std::size_t n) {
  if (unpacked_.bytes != nullptr)
    return read_unpacked(to, n);
  if (unpacker_ != nullptr)
    return read_packed(to, n);
  file_.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(n));
  if (file_.bad())
    fail("reading it failed");
  return static_cast<std::size_t>(file_.gcount());
}

std::size_t ByteSource::read_unpacked(std::uint8_t* to, std::size_t n) {
  const std::size_t bytes = std::min(n, unpacked_.size - unpacked_read_);
  if (bytes > 0)
    std::memcpy(to, unpacked_.bytes.get() + unpacked_read_, bytes);
  unpacked_read_ += bytes;
  return bytes;
}

bool ByteSource::refill() {
  file_.read(reinterpret_cast<char*>(buffer_.data()), static_cast<std::streamsize>(buffer_.size()));
  if (file_.bad())
    fail("reading it failed");
  unpacker_->next_in = buffer_.data();
  unpacker_->avail_in = static_cast<uInt>(file_.gcount());
  return unpacker_->avail_in > 0;
}

std::size_t ByteSource::read_packed(std::uint8_t* to, std::size_t n) {
  std::size_t done = 0;
  while (done < n && !ended_) {
    if (unpacker_->avail_in == 0 && !refill())
      fail("its gzip data is truncated");
    const std::size_t piece = std::min<std::size_t>(n - done, 1u << 30);
    unpacker_->next_out = to + done;
    unpacker_->avail_out = static_cast<uInt>(piece);
    const int status = inflate(unpacker_.get(), Z_NO_FLUSH);
    done += piece - unpacker_->avail_out;
    if (status == Z_STREAM_END) {
      ended_ = true;
      if (unpacker_->avail_in > 0 || refill())
        fail("there are bytes after the end of its gzip data");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail("its gzip data is damaged");
    }
  }
  return done;
}

}  // namespace sluice::gluon::data::detail
