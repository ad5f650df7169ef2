#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/idx.h>
#include <sluice/gluon/data/vision.h>

namespace sluice::gluon::data::vision {

namespace {

constexpr const char* k_debian_fashion_mnist = "/usr/share/datasets/fashion-mnist";
constexpr int k_classes = 10;

struct Folder {
  std::filesystem::path path;
  std::string named_by = {};  // "SLUICE_DATA=/data: ", where the user may not have it before his eyes
};

Folder folder_of(const ImageFilesOptions& options, const std::string& default_root) {
  if (!options.root.empty())
    return {options.root};
  if (const char* variable = std::getenv("SLUICE_DATA"); variable != nullptr && *variable != '\0')
    return {variable, message("SLUICE_DATA=", variable, ": ")};
  require<FileError>(!default_root.empty(), [] {
    return "MNIST: say where its files are, by options.root or by the environment variable SLUICE_DATA";
  });
  return {default_root};
}

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const std::string& candidate : {name + ".gz", name}) {
    if (std::filesystem::exists(folder / candidate, ignored))
      return folder / candidate;
  }
  const bool there = std::filesystem::is_directory(folder, ignored);
  throw FileError(
      there ? message(folder.string(), ": lacks the file ", name, ".gz (or the same without .gz)")
            : message(
                  folder.string(),
                  ": there is no such folder; it should hold ",
                  name,
                  ".gz and three files more (SLUICE_DATA names another)"));
}

}  // namespace

struct MNIST::Images {
  std::int64_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels, labels;
};

MNIST::MNIST(const ImageFilesOptions& options) : MNIST(options, "") {}

MNIST::MNIST(const ImageFilesOptions& options, const std::string& default_root) {
  const Folder folder = folder_of(options, default_root);
  try {
    images_ = read_images(folder.path, options.train ? "train" : "t10k");
  } catch (const FileError& error) {
    throw FileError(folder.named_by + error.message());
  }
}

std::shared_ptr<const MNIST::Images> MNIST::read_images(const std::filesystem::path& folder, const std::string& stem) {
  const std::filesystem::path image_file = find_file(folder, stem + "-images-idx3-ubyte");
  const std::filesystem::path label_file = find_file(folder, stem + "-labels-idx1-ubyte");
  IdxFile images = read_idx(image_file, 3);
  IdxFile labels = read_idx(label_file, 1);
  require<FileError>(images.shape[0] == labels.shape[0], [&] {
    return message(
        image_file.string(),
        " has ",
        images.shape[0],
        " images, ",
        label_file.string(),
        " has ",
        labels.shape[0],
        " labels");
  });
  const auto largest = std::max_element(labels.values.begin(), labels.values.end());
  require<FileError>(largest == labels.values.end() || *largest < k_classes, [&] {
    return message(
        label_file.string(), ": label ", int{*largest}, " at ", largest - labels.values.begin(), " is above 9");
  });
  return std::make_shared<const Images>(Images{
      .count = images.shape[0],
      .height = images.shape[1],
      .width = images.shape[2],
      .pixels = std::move(images.values),
      .labels = std::move(labels.values)});
}

std::int64_t MNIST::size() const {
  return images_->count;
}

ArraySpec MNIST::data_spec() const {
  return {.shape = {images_->height, images_->width, 1}, .dtype = uint8};
}

const void* MNIST::data_row(std::int64_t index) const {
  return images_->pixels.data() + index * images_->height * images_->width;
}

void MNIST::read(std::span<const std::int64_t> indices, const TensorView& data, const TensorView& label) const {
  const auto bytes = static_cast<std::size_t>(images_->height * images_->width);
  for (std::size_t i = 0; bytes > 0 && i < indices.size(); ++i)
    std::memcpy(data.as<std::uint8_t>() + i * bytes, data_row(indices[i]), bytes);
  read_labels(indices, label);
}

void MNIST::read_labels(std::span<const std::int64_t> indices, const TensorView& label) const {
  for (std::size_t i = 0; i < indices.size(); ++i)
    label.as<std::int32_t>()[i] = images_->labels[static_cast<std::size_t>(indices[i])];
}

FashionMNIST::FashionMNIST(const ImageFilesOptions& options) : MNIST(options, k_debian_fashion_mnist) {}

}  // namespace sluice::gluon::data::vision
