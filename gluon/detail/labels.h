#pragma once

#include <string_view>

#include <sluice/engine/error.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/normalise.h>

namespace sluice::gluon::detail {

/// The labels in the predictions' shape. Throws ShapeError naming `loss` unless there are as many of them.
inline NDArray labels_like(const NDArray& predictions, const NDArray& labels, std::string_view loss) {
  const Shape& shape = sluice::detail::unseen_shape(predictions);
  const Shape& given = sluice::detail::unseen_shape(labels);
  require<ShapeError>(shape.size() == given.size(), [&] {
    return message(
        loss,
        ": labels of shape ",
        given,
        " do not fit predictions of shape ",
        shape,
        "; give labels of shape ",
        shape,
        ", or as many numbers");
  });
  return given == shape ? labels : labels.reshape(sluice::detail::with_open_rows(shape));
}

}  // namespace sluice::gluon::detail
