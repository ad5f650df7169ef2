#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sluice/gluon/image/image.h>

namespace sluice::image::detail {

/// The image on a GPU, decoded there; undefined where the CPU has to. Keeps the bytes then, otherwise takes them.
/// Throws as ImageDecoder.
NDArray decoded_on_gpu(
    std::vector<std::uint8_t>& encoded,
    const DecodeOptions& options,
    const std::string& name,
    Device device,
    SourceLocation site);

/// Whether a JPEG file's segments follow each other up to its end mark, restart marks in order. Where they do not,
/// libjpeg says what is wrong; others may take the file as it is.
bool is_whole_jpeg(std::span<const std::uint8_t> file) noexcept;

}  // namespace sluice::image::detail
