#include "samples/support/images.h"

#include <algorithm>
#include <numeric>

namespace samples {

using namespace sluice;
using gluon::data::vision::FashionMNIST;

namespace {

const std::vector<std::string> k_clothes = {
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"};
constexpr std::int64_t k_summed_images = 100;

}  // namespace

Images open_images(const std::string& folder) {
  try {
    return {
        .training = FashionMNIST({.root = folder, .train = true}),
        .testing = FashionMNIST({.root = folder, .train = false}),
        .classes = k_clothes};
  } catch (const FileError& error) {
    throw FileError(message(
        folder.empty() ? "" : "--data " + folder + ": ",
        error.message(),
        "\nFashion-MNIST's four files come with Debian's package dataset-fashion-mnist (apt-get install ",
        "dataset-fashion-mnist) or from https://github.com/zalandoresearch/fashion-mnist; --data FOLDER names the ",
        "folder that holds them, and so does SLUICE_DATA."));
  }
}

std::uint64_t checksum(const Images& images) {
  std::uint64_t sum = 14695981039346656037U;  // FNV-1a
  const auto take = [&](const void* from, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; ++i)
      sum = (sum ^ static_cast<const std::uint8_t*>(from)[i]) * 1099511628211U;
  };
  const auto& training = images.training;
  const std::int64_t image_bytes = training.data_spec().shape.size();
  for (std::int64_t i = 0; i < std::min(training.size(), k_summed_images); ++i)
    take(training.data_row(i), image_bytes);
  std::vector<std::int64_t> all(static_cast<std::size_t>(training.size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::vector<std::int32_t> labels(all.size());
  training.read_labels(all, {.data = labels.data(), .shape = {training.size()}, .size = training.size()});
  take(labels.data(), training.size() * static_cast<std::int64_t>(sizeof(std::int32_t)));
  return sum;
}

}  // namespace samples
