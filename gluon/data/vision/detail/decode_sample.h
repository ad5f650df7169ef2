#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <sluice/gluon/data/sample.h>
#include <sluice/gluon/image/image.h>

namespace sluice::gluon::data::vision::detail {

/// The pixels of an encoded image as an array of a sample. Throws as image::ImageDecoder.
HostArray decode_sample(std::span<const std::uint8_t> bytes, const image::DecodeOptions& options, std::string name);
/// The same of a file.
HostArray decode_file(const std::filesystem::path& path, const image::DecodeOptions& options);
/// Labels as an array: int32 where `classes`, of shape () where there is one.
HostArray label_array(std::span<const float> labels, bool classes);
/// Whether that is the number of a class: whole, not negative, and exact.
bool is_class(float label);

}  // namespace sluice::gluon::data::vision::detail
