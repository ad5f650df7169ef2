#include <algorithm>
#include <cmath>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/vision/detail/pixels.h>
#include <sluice/gluon/data/vision/random_transforms.h>

namespace sluice::gluon::data::vision::transforms {

namespace {

using detail::ColourMap;

constexpr const char* k_changes[] = {"brightness", "contrast", "saturation", "hue"};

// The components of ImageNet's colours, each times its standard deviation.
constexpr double k_light[3][3] = {
    {55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009},
    {55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140},
    {55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203}};

void check_amount(const char* what, double amount) {
  require(amount >= 0 && std::isfinite(amount), [&] { return message("RandomColorJitter: ", what, " of ", amount); });
}

}  // namespace

RandomColorJitter::RandomColorJitter(double brightness, double contrast, double saturation, double hue)
    : most_{brightness, contrast, saturation, hue} {
  for (std::size_t i = 0; i < most_.size(); ++i)
    check_amount(k_changes[i], most_[i]);
  require(hue <= 1, [&] { return message("RandomColorJitter: hue of ", hue, ", more than half a circle"); });
}

ArraySpec RandomColorJitter::output_spec(const ArraySpec& in) const {
  detail::check_colours("RandomColorJitter", in);
  return in;
}

void RandomColorJitter::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  std::array<std::size_t, 4> order = {0, 1, 2, 3};
  const bool several = std::count_if(most_.begin(), most_.end(), [](double most) { return most > 0; }) > 1;
  for (std::size_t i = order.size(); several && i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i)))]);
  const std::array<float, 3> mean = most_[1] > 0 ? detail::mean_colour(in) : std::array<float, 3>{};
  ColourMap all;
  for (const std::size_t change : order) {
    const double most = most_[change];
    if (most == 0)
      continue;
    const bool turns = change == 3;
    const auto amount =
        static_cast<float>(turns ? random.uniform(-most, most) : random.uniform(std::max(0.0, 1 - most), 1 + most));
    const ColourMap map = change == 0   ? detail::brightness(amount)
                          : change == 1 ? detail::contrast(amount, detail::grey_of(detail::mapped(all, mean)))
                          : change == 2 ? detail::saturation(amount)
                                        : detail::hue(amount);
    all = detail::chained(map, all);
  }
  detail::map_colours(in, all, out);
}

RandomLighting::RandomLighting(double alpha) : alpha_(alpha) {
  require(alpha >= 0 && std::isfinite(alpha), [&] { return message("RandomLighting: an alpha of ", alpha); });
}

ArraySpec RandomLighting::output_spec(const ArraySpec& in) const {
  detail::check_colours("RandomLighting", in);
  require<ShapeError>(
      in.shape[2] == 3, [&] { return message("RandomLighting: an image of 3 channels, not ", in.shape); });
  return in;
}

void RandomLighting::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  std::array<double, 3> strength;
  for (double& one : strength)
    one = alpha_ * random.normal();
  ColourMap map;
  for (std::size_t c = 0; c < 3; ++c) {
    const double sum = k_light[c][0] * strength[0] + k_light[c][1] * strength[1] + k_light[c][2] * strength[2];
    map.plus[c] = static_cast<float>(sum);
  }
  detail::map_colours(in, map, out);
}

RandomGray::RandomGray(double p) : p_(p) {
  require(p >= 0 && p <= 1, [&] { return message("RandomGray: a probability of ", p); });
}

ArraySpec RandomGray::output_spec(const ArraySpec& in) const {
  detail::check_colours("RandomGray", in);
  return in;
}

void RandomGray::operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const {
  detail::map_colours(in, random.chance(p_) ? detail::saturation(0) : ColourMap(), out);
}

}  // namespace sluice::gluon::data::vision::transforms
