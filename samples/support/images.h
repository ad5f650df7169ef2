#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sluice/sluice.h>

namespace samples {

/// The images to train on and those to validate with, and what their classes are called.
struct Images {
  std::optional<sluice::gluon::data::vision::FashionMNIST> training;  // none: there is nothing to train
  sluice::gluon::data::vision::FashionMNIST testing;
  std::vector<std::string> classes;
};

/// Opens Fashion-MNIST's four files in the folder of --data ("": where FashionMNIST looks without a root), or only the
/// two of the test images. Throws sluice::FileError that says what is wrong (files, none or differing images), which
/// flag names another folder, and where the files come from.
Images open_images(const std::string& folder, bool with_training = true);
/// Of all labels and the first images: tells other files from these, cheaply.
std::uint64_t checksum(const sluice::gluon::data::vision::FashionMNIST& images);

}  // namespace samples
