#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/conv/tensor_tiles.h>

namespace sluice::detail {

/// A convolution without steps between pixels or taps, of whose images blocks take strips of `rows` rows of the result.
struct ImageRows {
  int height, width, inputs, out_height, out_width, outputs, kernel[2], pad[2];
  int rows, strips_each;  // strips of an image

  ImageRows(const ConvolutionGeometry& g, std::int64_t rows_of_strip)
      : height(narrow(g.in[0])),
        width(narrow(g.in[1])),
        inputs(narrow(g.inputs)),
        out_height(narrow(g.out[0])),
        out_width(narrow(g.out[1])),
        outputs(narrow(g.outputs)),
        kernel{narrow(g.kernel[0]), narrow(g.kernel[1])},
        pad{narrow(g.pad[0]), narrow(g.pad[1])},
        rows(narrow(rows_of_strip)),
        strips_each(narrow(parts_of(g.out[0], rows_of_strip))) {}

  /// Pixels of x that a row of the result reads.
  __device__ int across() const { return out_width - 1 + kernel[1]; }
  __device__ int taps() const { return kernel[0] * kernel[1]; }

  static int narrow(std::int64_t number) { return static_cast<int>(number); }
};

/// Strip `at` of those of all images, which ends early where an image does.
struct Strip {
  std::int64_t image;
  int first, rows, pixels;

  __device__ Strip(const ImageRows& of, int at)
      : image(at / of.strips_each),
        first(at % of.strips_each * of.rows),
        rows(of.out_height - first < of.rows ? of.out_height - first : of.rows),
        pixels(rows * of.out_width) {}
};

}  // namespace sluice::detail
