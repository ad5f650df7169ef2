#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <unistd.h>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/event_file.h>
#include <sluice/ndarray/written.h>

namespace sluice::gluon::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view k_prefix = "events.out.tfevents.";

// Fields of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr std::uint32_t k_wall_time = 1, k_step = 2, k_file_version = 3, k_summary = 5, k_session_log = 7;
constexpr std::uint32_t k_value = 1, k_tag = 1, k_simple_value = 2, k_status = 1;
constexpr std::int64_t k_start = 1;

constexpr std::array<std::uint32_t, 256> made_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t rest = i;
    for (int bit = 0; bit < 8; ++bit)
      rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = rest;
  }
  return table;
}

std::string little_endian(std::uint64_t value, std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i)
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

// Turned and shifted, since a checksum of bytes that hold checksums says little.
std::string masked_checksum(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + 0xa282ead8u, 4);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard reads files in the order of their names, which begin with seconds.
std::int64_t first_free_second(const fs::path& folder) {
  auto second = static_cast<std::int64_t>(now());
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(k_prefix))
      second = std::max<std::int64_t>(second, std::atoll(name.c_str() + k_prefix.size()) + 1);
  }
  return second;
}

std::string host() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0')
    return "localhost";
  std::string text = name.data();
  std::replace(text.begin(), text.end(), '/', '-');
  return text;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  static constexpr std::array<std::uint32_t, 256> k_table = made_table();
  std::uint32_t sum = ~0u;
  for (const char byte : bytes)
    sum = (sum >> 8) ^ k_table[(sum ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~sum;
}

void ProtoMessage::add_varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtoMessage::add_key(std::uint32_t field, std::uint32_t wire_type) {
  add_varint(field << 3 | wire_type);
}

ProtoMessage& ProtoMessage::add_number(std::uint32_t field, std::int64_t value) {
  add_key(field, 0);
  add_varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::add_double(std::uint32_t field, double value) {
  add_key(field, 1);
  bytes_ += little_endian(std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

ProtoMessage& ProtoMessage::add_float(std::uint32_t field, float value) {
  add_key(field, 5);
  bytes_ += little_endian(std::bit_cast<std::uint32_t>(value), 4);
  return *this;
}

ProtoMessage& ProtoMessage::add_bytes(std::uint32_t field, std::string_view value) {
  add_key(field, 2);
  add_varint(value.size());
  bytes_ += value;
  return *this;
}

std::string framed_record(std::string_view bytes) {
  const std::string length = little_endian(bytes.size(), 8);
  return length + masked_checksum(length) + std::string(bytes) + masked_checksum(bytes);
}

EventFile::EventFile(const fs::path& folder) {
  std::error_code error, unknown;
  fs::create_directories(folder, error);
  require<FileError>(fs::is_directory(folder, unknown), [&] {
    return message(folder.string(), ": is no folder, and none can be made: ", error.message());
  });
  path_ = folder / message(k_prefix, first_free_second(folder), '.', host(), '.', ::getpid());
  file_.open(path_, std::ios::binary | std::ios::trunc);
  write(ProtoMessage().add_double(k_wall_time, now()).add_bytes(k_file_version, "brain.Event:2"));
}

void EventFile::add_scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  ProtoMessage summary;
  for (const auto& [tag, value] : values) {
    const ProtoMessage one = ProtoMessage().add_bytes(k_tag, tag).add_float(k_simple_value, static_cast<float>(value));
    summary.add_bytes(k_value, one.bytes());
  }
  write(ProtoMessage().add_double(k_wall_time, now()).add_number(k_step, step).add_bytes(k_summary, summary.bytes()));
}

void EventFile::add_restart(std::int64_t step) {
  const ProtoMessage session = ProtoMessage().add_number(k_status, k_start);
  write(
      ProtoMessage().add_double(k_wall_time, now()).add_number(k_step, step).add_bytes(k_session_log, session.bytes()));
}

void EventFile::write(const ProtoMessage& event) {
  const std::string record = framed_record(event.bytes());
  file_.write(record.data(), static_cast<std::streamsize>(record.size())).flush();
  sluice::detail::require_written(file_, path_);
}

}  // namespace sluice::gluon::detail
