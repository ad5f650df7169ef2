#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/gluon/data/any_dataset.h>
#include <sluice/gluon/data/sample.h>
#include <sluice/gluon/image/image.h>

namespace sluice::gluon::data::vision::detail {

/// The pixels of an encoded image as an array of a sample. Throws as image::ImageDecoder.
HostArray decode_sample(std::span<const std::uint8_t> bytes, const image::DecodeOptions& options, std::string name);
/// The same straight into a batch of one image, with its label. Throws ShapeError where it does not fit, too.
void decode_into(
    std::span<const std::uint8_t> bytes,
    const image::DecodeOptions& options,
    std::string name,
    const HostArray& label,
    data::detail::Views batch_of_one);
/// Labels as an array: int32 where `classes`, of shape () where there is one.
HostArray label_array(std::span<const float> labels, bool classes);
/// Whether that is the number of a class: whole, not negative, and exact.
bool is_class(float label);

}  // namespace sluice::gluon::data::vision::detail
