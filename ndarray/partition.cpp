#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>

namespace sluice {

void NDArray::partition(int axis, std::int64_t parts, SourceLocation site) const {
  detail::located(site, [&] {
    const detail::ArrayObject& array = detail::with_data("partition", detail::object_of(*this, "partition"));
    const int along = normal_axis(axis, array.shape.ndim(), "partition");
    const std::int64_t extent = array.shape[along];
    require<ValueError>(parts > 0 && extent > 0 && extent % parts == 0, [&] {
      return message("partition: axis ", axis, " of shape ", array.shape, " is not cut into ", parts, " equal parts");
    });
    bool fits = array.contiguous && array.offset == 0 && detail::covers_buffer(array);
    for (int i = 0; i < along; ++i)
      fits = fits && array.shape[i] == 1;
    require<ValueError>(fits, [&] {
      return message(
          "partition: parts along axis ",
          axis,
          " of shape ",
          array.shape,
          ", strides ",
          array.strides,
          ", are not pieces of all of its memory");
    });
    const auto part = array.buffer->chunk().requested / static_cast<std::size_t>(parts);
    std::vector<std::size_t> ends;
    for (std::int64_t i = 1; i <= parts; ++i)
      ends.push_back(static_cast<std::size_t>(i) * part);
    array.buffer->divide(ends, site);
  });
}

}  // namespace sluice
