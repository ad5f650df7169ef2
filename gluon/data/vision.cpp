#include <algorithm>
#include <cstdlib>
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

MNIST::MNIST(const ImageFilesOptions& options) : MNIST(options, "") {}

MNIST::MNIST(const ImageFilesOptions& options, const std::string& default_root)
    : ImagesInMemory(find_and_read(options, default_root)) {}

std::shared_ptr<const MNIST::Content> MNIST::find_and_read(
    const ImageFilesOptions& options, const std::string& default_root) {
  const Folder folder = folder_of(options, default_root);
  try {
    return read_images(folder.path, options.train ? "train" : "t10k");
  } catch (const FileError& error) {
    throw FileError(folder.named_by + error.message());
  }
}

std::shared_ptr<const MNIST::Content> MNIST::read_images(const std::filesystem::path& folder, const std::string& stem) {
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
  return std::make_shared<const Content>(Content{
      .shape = {images.shape[1], images.shape[2], 1},
      .pixels = std::move(images.values),
      .labels = std::move(labels.values)});
}

FashionMNIST::FashionMNIST(const ImageFilesOptions& options) : MNIST(options, k_debian_fashion_mnist) {}

}  // namespace sluice::gluon::data::vision
