#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/logging.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/written.h>

namespace sluice::gluon::estimator {

namespace {

/// The shortest text that reads back as the same number.
std::string exact_number(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos)
    return text;
  std::string quoted = "\"";
  for (const char c : text)
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string header_of(const std::vector<std::string>& names) {
  std::string header = "epoch,batch,samples,learning_rate";
  for (const std::string& name : names)
    header += ',' + field(name);
  return header + "\r\n";
}

// Bytes of the header and of whole rows of no later batch; none of a file with another header.
std::int64_t bytes_until(const std::filesystem::path& path, const std::string& header, std::int64_t batch) {
  std::ifstream file(path, std::ios::binary);
  std::string start(header.size(), '\0');
  if (!file.read(start.data(), std::ssize(start)) || start != header)
    return 0;
  std::int64_t bytes = std::ssize(header);
  for (std::string line; std::getline(file, line) && !file.eof() && line.ends_with('\r');) {
    std::int64_t at = 0;
    const std::size_t comma = line.find(',');  // behind the epoch
    const char* const number = line.data() + std::min(comma, line.size() - 1) + 1;
    if (std::from_chars(number, line.data() + line.size(), at).ec != std::errc() || at > batch)
      break;
    bytes += std::ssize(line) + 1;
  }
  return bytes;
}

}  // namespace

CSVLogger::CSVLogger(CSVLoggerOptions options) : options_(std::move(options)) {
  require(!options_.path.empty() && options_.every_batches >= 0, [&] {
    return message(
        "CSVLogger: a row each ", options_.every_batches, " batches of '", options_.path.string(), "' cannot be");
  });
}

void CSVLogger::train_begin(Estimator& estimator) {
  std::error_code ignored;
  if (options_.path.has_parent_path())
    std::filesystem::create_directories(options_.path.parent_path(), ignored);
  const bool was_there = std::filesystem::exists(options_.path, ignored);
  const std::ofstream trial(options_.path, std::ios::binary | std::ios::app);
  sluice::detail::require_written(trial, options_.path);
  if (!was_there)
    std::filesystem::remove(options_.path, ignored);
  const std::int64_t now = estimator.progress().total_batches;
  size_ = now == 0 ? 0 : bytes_until(options_.path, header_of(estimator.figure_names()), now);
}

// What a process wrote after its last checkpoint comes again.
void CSVLogger::train_resumed(Estimator& estimator) {
  if (size_of_file() < size_)
    size_ = bytes_until(options_.path, header_of(estimator.figure_names()), estimator.progress().total_batches);
}

std::int64_t CSVLogger::size_of_file() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(options_.path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

void CSVLogger::append(const std::string& text) const {
  std::error_code error;
  if (size_ > 0 && size_of_file() > size_)
    std::filesystem::resize_file(options_.path, static_cast<std::uintmax_t>(size_), error);
  std::ofstream file(options_.path, std::ios::binary | (size_ > 0 ? std::ios::app : std::ios::trunc));
  file.write(text.data(), static_cast<std::streamsize>(text.size())).flush();
  require<FileError>(!error, [&] { return message(options_.path.string(), ": cannot be written: ", error.message()); });
  sluice::detail::require_written(file, options_.path);
}

void CSVLogger::write_row(Estimator& estimator, std::int64_t epoch) {
  const std::vector<std::string> names = estimator.figure_names();
  const std::string header = header_of(names);
  const Progress& at = estimator.progress();
  if (size_of_file() < size_)  // somebody took from it
    size_ = bytes_until(options_.path, header, at.total_batches);
  std::string text = size_ == 0 ? header : "";
  text += message(epoch, ',', at.total_batches, ',', at.total_samples, ',');
  text += exact_number(estimator.trainer().learning_rate());
  for (const std::string& name : names) {
    const bool is_missing = estimator.validations() == 0 && name.starts_with("validation ");
    text += is_missing ? "," : ',' + exact_number(estimator.figure(name));
  }
  text += "\r\n";
  append(text);
  size_ += std::ssize(text);
}

void CSVLogger::batch_end(Estimator& estimator, const data::Batch& /*batch*/, const StepResult& /*result*/) {
  const Progress& at = estimator.progress();
  if (options_.every_batches > 0 && at.total_batches % options_.every_batches == 0)
    write_row(estimator, at.total_epochs + 1);
}

void CSVLogger::epoch_end(Estimator& estimator) {
  if (options_.every_batches == 0)
    write_row(estimator, estimator.progress().total_epochs);
}

HandlerState CSVLogger::state() const {
  return {{"size", array<std::int64_t>({size_})}};
}

void CSVLogger::load_state(const HandlerState& state) {
  const auto size = state.find("size");
  require(size == state.end() || (size->second.dtype() == int64 && size->second.size() == 1), [] {
    return "CSVLogger: the state does not say how long the file was";
  });
  const std::int64_t bytes = size == state.end() ? 0 : size->second.item<std::int64_t>();
  require(bytes >= 0, [&] { return message("CSVLogger: the file cannot have had ", bytes, " bytes"); });
  size_ = bytes;
}

}  // namespace sluice::gluon::estimator
