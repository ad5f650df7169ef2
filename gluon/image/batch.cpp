#include <sluice/engine/error.h>
#include <sluice/gluon/image/arrays.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/concat/concat.h>

namespace sluice::image {

NDArray imdecode_batch(
    std::span<const std::vector<std::uint8_t>> files,
    ImageSize size,
    const DecodeOptions& options,
    Device device,
    const InterpolationOptions& interpolation,
    SourceLocation site) {
  return sluice::detail::located(site, [&] {
    require(!files.empty(), [] { return "imdecode_batch: there are no images"; });
    require(options.channels != 0, [] {
      return "imdecode_batch: channels is 0, by which images of a batch could have different ones";
    });
    std::vector<NDArray> images;
    for (const std::vector<std::uint8_t>& file : files) {
      NDArray image = imdecode(file, options, device, site);
      if (image.shape()[0] != size.height || image.shape()[1] != size.width)
        image = resize(image, size, interpolation, site);
      images.push_back(std::move(image));
    }
    return stack(images, 0, site);
  });
}

}  // namespace sluice::image
