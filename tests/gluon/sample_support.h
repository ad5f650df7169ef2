#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <sluice/gluon/data/sample.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/gluon/data/vision/transforms.h>

namespace sluice::test {

using gluon::data::HostArray;
using gluon::data::SampleRandom;

/// What a transform makes of one sample, in memory that it did not see before: full of 0xee.
template <class T>
HostArray applied(const T& transform, const HostArray& in, SampleRandom random = SampleRandom()) {
  HostArray out(ArraySpec(transform.output_spec(in.spec())));
  std::memset(const_cast<void*>(out.data()), 0xee, out.bytes());
  gluon::data::detail::apply_transform(transform, in.view(), out.view(), random);
  return out;
}

template <class T>
std::vector<T> elements(const HostArray& array) {
  return std::vector<T>(array.as<T>(), array.as<T>() + array.size());
}

/// (height, width, channels) of float32: (i * 37) % 101.
inline HostArray numbers(std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < height * width * channels; ++i)
    values.push_back(static_cast<float>(i * 37 % 101));
  return HostArray(values, {height, width, channels});
}
/// The same of uint8.
inline HostArray bytes(std::int64_t height, std::int64_t width, std::int64_t channels) {
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < height * width * channels; ++i)
    values.push_back(static_cast<std::uint8_t>(i * 37 % 101));
  return HostArray(values, {height, width, channels});
}

}  // namespace sluice::test
