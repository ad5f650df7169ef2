#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sluice/sluice.h>

namespace samples {

/// The images to train on and those to validate with, and what their classes are called.
struct Images {
  sluice::gluon::data::vision::FashionMNIST training, testing;
  std::vector<std::string> classes;
};

/// Opens Fashion-MNIST's four files in the folder of --data ("": where FashionMNIST looks without a root). Throws
/// sluice::FileError that says what is wrong, which flag names another folder, and where the files come from.
Images open_images(const std::string& folder);
/// Of all training labels and the first training images: tells other files from these, cheaply.
std::uint64_t checksum(const Images& images);

}  // namespace samples
