#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/vision/detail/decode_sample.h>
#include <sluice/gluon/data/vision/image_files.h>

namespace sluice::gluon::data::vision {

namespace {

namespace fs = std::filesystem;

constexpr float k_most_classes = 1 << 24;  // above that floats skip whole numbers

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// What is in a folder, sorted by name.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    found.push_back(entry->path());
  require<FileError>(
      !error, [&] { return message(folder.string(), ": cannot be read as a folder: ", error.message()); });
  std::sort(found.begin(), found.end());
  return found;
}

float number_of(std::string_view text, const fs::path& list, std::size_t line) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require<FileError>(error == std::errc() && end == text.data() + text.size() && std::isfinite(value), [&] {
    return message(list.string(), ", line ", line, ": \"", text.substr(0, 40), "\" is no number");
  });
  return value;
}

ImageListItem item_of(std::string_view text, const fs::path& list, std::size_t line) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\t', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  require<FileError>(parts.size() >= 3 && !parts.back().empty(), [&] {
    return message(list.string(), ", line ", line, ": not a number, labels and a path, parted by tabs");
  });
  ImageListItem item{.path = std::string(parts.back())};
  number_of(parts.front(), list, line);
  for (std::size_t i = 1; i + 1 < parts.size(); ++i)
    item.label.push_back(number_of(parts[i], list, line));
  return item;
}

std::vector<ImageListItem> items_of(const fs::path& list) {
  std::error_code ignored;
  require<FileError>(fs::is_regular_file(list, ignored), [&] {
    return message(list.string(), ": there is no such file, or it is none");
  });
  std::ifstream file(list);
  require<FileError>(file.good(), [&] { return message(list.string(), ": it cannot be opened for reading"); });
  std::vector<ImageListItem> items;
  std::string text;
  for (std::size_t line = 1; std::getline(file, text); ++line) {
    if (!text.empty() && text.back() == '\r')
      text.pop_back();
    if (text.empty())
      continue;
    items.push_back(item_of(text, list, line));
    require<FileError>(items.back().label.size() == items.front().label.size(), [&] {
      return message(
          list.string(),
          ", line ",
          line,
          ": ",
          items.back().label.size(),
          " labels, before there were ",
          items.front().label.size());
    });
  }
  require<FileError>(!items.empty() && !file.bad(), [&] { return message(list.string(), ": it lists no images"); });
  return items;
}

}  // namespace

namespace detail {

HostArray decode_sample(std::span<const std::uint8_t> bytes, const image::DecodeOptions& options, std::string name) {
  image::ImageDecoder decoder(bytes, options, std::move(name));
  HostArray pixels(ArraySpec{.shape = decoder.shape(), .dtype = uint8});
  decoder.decode(pixels.writable<std::uint8_t>());
  return pixels;
}

void decode_into(
    std::span<const std::uint8_t> bytes,
    const image::DecodeOptions& options,
    std::string name,
    const HostArray& label,
    data::detail::Views batch_of_one) {
  image::ImageDecoder decoder(bytes, options, std::move(name));
  data::detail::check_count(2, batch_of_one.size());
  data::detail::check_fits(
      0, {.shape = decoder.shape(), .dtype = uint8}, data::detail::spec_of_sample(batch_of_one[0]));
  decoder.decode(static_cast<std::uint8_t*>(batch_of_one[0].data));
  data::detail::write_array(1, label, batch_of_one[1]);
}

bool is_class(float label) {
  return label >= 0 && label <= k_most_classes && label == std::floor(label);
}

HostArray label_array(std::span<const float> labels, bool classes) {
  if (classes)
    return HostArray::scalar(static_cast<std::int32_t>(labels[0]));
  if (labels.size() == 1)
    return HostArray::scalar(labels[0]);
  return HostArray(std::vector<float>(labels.begin(), labels.end()), {static_cast<std::int64_t>(labels.size())});
}

}  // namespace detail

struct ImageFolderDataset::List {
  std::vector<std::string> synsets = {};
  std::vector<Item> items = {};
  image::DecodeOptions decode = {};
};

ImageFolderDataset::ImageFolderDataset(const fs::path& root, const ImageFolderOptions& options) {
  List list{.decode = options.decode};
  std::error_code ignored;
  for (const fs::path& folder : entries_of(root)) {
    if (!fs::is_directory(folder, ignored))
      continue;
    const auto label = static_cast<std::int32_t>(list.synsets.size());
    list.synsets.push_back(folder.filename().string());
    for (const fs::path& file : entries_of(folder)) {
      const std::string ending = lower(file.extension().string());
      const auto& wanted = options.extensions;
      if (std::find(wanted.begin(), wanted.end(), ending) != wanted.end() && fs::is_regular_file(file, ignored))
        list.items.push_back({file, label});
    }
  }
  require<FileError>(!list.items.empty(), [&] {
    return message(root.string(), ": none of its ", list.synsets.size(), " folder(s) of classes has an image");
  });
  list_ = std::make_shared<const List>(std::move(list));
}

std::int64_t ImageFolderDataset::size() const {
  return static_cast<std::int64_t>(list_->items.size());
}

Sample ImageFolderDataset::sample_at(std::int64_t index) const {
  const Item& item = list_->items[static_cast<std::size_t>(index)];
  const auto bytes = image::read_encoded(item.path, list_->decode.most_bytes);
  return {detail::decode_sample(bytes, list_->decode, item.path.string()), HostArray::scalar(item.label)};
}

void ImageFolderDataset::write_sample(std::int64_t index, data::detail::Views batch_of_one) const {
  const Item& item = list_->items[static_cast<std::size_t>(index)];
  const auto bytes = image::read_encoded(item.path, list_->decode.most_bytes);
  detail::decode_into(bytes, list_->decode, item.path.string(), HostArray::scalar(item.label), batch_of_one);
}

const std::vector<std::string>& ImageFolderDataset::synsets() const {
  return list_->synsets;
}

const std::vector<ImageFolderDataset::Item>& ImageFolderDataset::items() const {
  return list_->items;
}

struct ImageListDataset::List {
  fs::path root = {};
  std::vector<ImageListItem> items = {};
  image::DecodeOptions decode = {};
  bool classes = true;
};

ImageListDataset::ImageListDataset(const fs::path& root, const fs::path& list, const image::DecodeOptions& decode)
    : ImageListDataset(root, items_of(list), decode) {}

ImageListDataset::ImageListDataset(
    const fs::path& root, std::vector<ImageListItem> items, const image::DecodeOptions& decode) {
  require(!items.empty(), [] { return "ImageListDataset: the list is empty"; });
  const std::size_t labels = items[0].label.size();
  bool classes = labels == 1;
  for (const ImageListItem& item : items) {
    require(!item.label.empty() && item.label.size() == labels, [&] {
      return message(
          "ImageListDataset: ", item.path, " has ", item.label.size(), " label(s), ", items[0].path, " has ", labels);
    });
    classes = classes && detail::is_class(item.label[0]);
  }
  list_ = std::make_shared<const List>(List{root, std::move(items), decode, classes});
}

std::int64_t ImageListDataset::size() const {
  return static_cast<std::int64_t>(list_->items.size());
}

Sample ImageListDataset::sample_at(std::int64_t index) const {
  const ImageListItem& item = list_->items[static_cast<std::size_t>(index)];
  const fs::path path = list_->root / item.path;
  const auto bytes = image::read_encoded(path, list_->decode.most_bytes);
  return {detail::decode_sample(bytes, list_->decode, path.string()), detail::label_array(item.label, list_->classes)};
}

void ImageListDataset::write_sample(std::int64_t index, data::detail::Views batch_of_one) const {
  const ImageListItem& item = list_->items[static_cast<std::size_t>(index)];
  const fs::path path = list_->root / item.path;
  const auto bytes = image::read_encoded(path, list_->decode.most_bytes);
  detail::decode_into(
      bytes, list_->decode, path.string(), detail::label_array(item.label, list_->classes), batch_of_one);
}

const std::vector<ImageListItem>& ImageListDataset::items() const {
  return list_->items;
}

ImageRecordDataset::ImageRecordDataset(const fs::path& path, const image::DecodeOptions& decode, RecordLabels labels)
    : records_(path), name_(path.string()), decode_(decode), labels_(labels) {}

template <class Take>
auto ImageRecordDataset::with_record(std::int64_t index, const Take& take) const {
  const recordio::Bytes record = records_.record(index);
  const std::string name = message(name_, ", record ", records_.key(index));
  recordio::Unpacked unpacked;
  try {
    unpacked = recordio::unpack(record);
  } catch (const FileError& error) {
    throw FileError(name + ": " + error.message());
  }
  const std::vector<float>& labels = unpacked.header.labels;
  const bool is_class = labels.size() == 1 && labels_ == RecordLabels::classes;
  require<UnsupportedError>(!is_class || detail::is_class(labels[0]), [&] {
    return message(name, ": the label ", labels[0], " is no class; RecordLabels::numbers takes such labels");
  });
  return take(std::span<const std::uint8_t>(unpacked.content), name, detail::label_array(labels, is_class));
}

Sample ImageRecordDataset::sample_at(std::int64_t index) const {
  return with_record(index, [&](std::span<const std::uint8_t> bytes, const std::string& name, const HostArray& label) {
    return Sample{detail::decode_sample(bytes, decode_, name), label};
  });
}

void ImageRecordDataset::write_sample(std::int64_t index, data::detail::Views batch_of_one) const {
  with_record(index, [&](std::span<const std::uint8_t> bytes, const std::string& name, const HostArray& label) {
    detail::decode_into(bytes, decode_, name, label, batch_of_one);
  });
}

}  // namespace sluice::gluon::data::vision
