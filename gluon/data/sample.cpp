#include <cmath>
#include <cstring>

#include <sluice/gluon/data/sample.h>
#include <sluice/gluon/data/transform.h>
#include <sluice/operator/random/philox.h>

namespace sluice::gluon::data {

namespace {

std::size_t checked_bytes(const ArraySpec& spec) {
  std::uint64_t bytes = size_of(spec.dtype);
  for (const std::int64_t extent : spec.shape) {
    require<ShapeError>(extent >= 0, [&] { return message("HostArray: shape ", spec.shape, " cannot be"); });
    require<ShapeError>(
        !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) && bytes <= std::uint64_t{1} << 62,
        [&] { return message("HostArray: shape ", spec.shape, " has more bytes than can be counted"); });
  }
  return bytes;
}

// Spreads a seed and a counter over 64 bits (SplitMix64's finaliser: Steele, Lea and Flood, 2014).
std::uint64_t mixed(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

HostArray::HostArray(ArraySpec spec) : spec_(std::move(spec)), made_(true) {
  // Operator new aligns for every element type.
  data_ = std::shared_ptr<std::byte[]>(new std::byte[std::max<std::size_t>(1, checked_bytes(spec_))]);
}

HostArray::HostArray(ArraySpec spec, std::shared_ptr<const void> data)
    : spec_(std::move(spec)), data_(std::move(data)) {
  require(data_ != nullptr || spec_.shape.size() == 0, [&] {
    return message("HostArray: no memory for an array of shape ", spec_.shape);
  });
}

void HostArray::check_type(DType asked) const {
  require<DTypeError>(asked == spec_.dtype, [&] {
    return message("HostArray: its elements are ", spec_.dtype, ", asked for as ", asked);
  });
}

void* HostArray::own() {
  if (!made_ || data_.use_count() > 1) {
    HostArray copy(spec_);
    if (bytes() > 0)
      std::memcpy(const_cast<void*>(copy.data()), data(), bytes());
    *this = std::move(copy);
  }
  return const_cast<void*>(data_.get());
}

TensorView HostArray::view() const {
  return detail::sample_view(data_.get(), spec_);
}

// A key of its own for each epoch: the engine's block has one counter only, which samples of large epochs would leave.
SampleRandom::SampleRandom(const RandomBlock& epoch, std::uint64_t place) noexcept
    : key_(mixed(mixed(epoch.seed + 0x9e3779b97f4a7c15u) ^ epoch.offset)), place_(place) {}

std::uint64_t SampleRandom::bits() noexcept {
  const auto half = [](std::uint64_t word, int i) { return static_cast<std::uint32_t>(word >> (32 * i)); };
  const std::uint64_t block = taken_ / 2;
  const sluice::detail::PhiloxBlock words = sluice::detail::philox(
      {{half(place_, 0), half(place_, 1), half(block, 0), half(block, 1)}}, half(key_, 0), half(key_, 1));
  const std::size_t at = 2 * (taken_++ % 2);
  return std::uint64_t{words.word[at + 1]} << 32 | words.word[at];
}

double SampleRandom::uniform() noexcept {
  return static_cast<double>(bits() >> 11) * 0x1p-53;
}

double SampleRandom::uniform(double low, double high) noexcept {
  const double value = low + uniform() * (high - low);
  return value < high || low == high ? value : std::nextafter(high, low);
}

double SampleRandom::normal() noexcept {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(6.283185307179586 * uniform());
}

std::int64_t SampleRandom::integer(std::int64_t low, std::int64_t high) {
  require(low < high, [&] { return message("SampleRandom: no integer lies in [", low, ", ", high, ")"); });
  // The high half of a 64 x 64 bit product: even to within range / 2^64.
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return static_cast<std::int64_t>(
      static_cast<std::uint64_t>(low) + static_cast<std::uint64_t>((static_cast<Wide>(bits()) * range) >> 64));
}

}  // namespace sluice::gluon::data
