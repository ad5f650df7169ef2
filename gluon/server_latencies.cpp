#include <algorithm>
#include <cmath>
#include <cstddef>

#include <sluice/gluon/server.h>

namespace sluice::gluon {

namespace {

// Below 8 us a step is one microsecond, then an eighth of the doubling.
std::size_t step_of(double us) noexcept {
  constexpr int k_steps = ServerLatencies::k_steps;
  const double most = std::ldexp(1.0, 27);
  const auto whole = static_cast<std::uint64_t>(std::clamp(us, 0.0, most));
  if (whole < k_steps)
    return static_cast<std::size_t>(whole);
  const int doubling = 63 - __builtin_clzll(whole);  // >= 3
  const auto within = static_cast<int>(whole >> (doubling - 3)) - k_steps;
  return static_cast<std::size_t>((doubling - 2) * k_steps + within);
}

// Where the step ends.
double end_of(std::size_t step) noexcept {
  const auto steps = static_cast<std::size_t>(ServerLatencies::k_steps);
  if (step < steps)
    return static_cast<double>(step + 1);
  return std::ldexp(static_cast<double>(steps + step % steps + 1), static_cast<int>(step / steps) - 1);
}

}  // namespace

void ServerLatencies::add(double us) noexcept {
  ++counts[std::min(step_of(us), counts.size() - 1)];
  max_us = std::max(max_us, us);
}

void ServerLatencies::merge(const ServerLatencies& other) noexcept {
  for (std::size_t i = 0; i < counts.size(); ++i)
    counts[i] += other.counts[i];
  max_us = std::max(max_us, other.max_us);
}

std::uint64_t ServerLatencies::total() const noexcept {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts)
    sum += count;
  return sum;
}

double ServerLatencies::percentile(double percent) const noexcept {
  const std::uint64_t all = total();
  const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(all) * percent / 100));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size() && all > 0; ++i) {
    sum += counts[i];
    if (sum >= std::max<std::uint64_t>(wanted, 1))
      return std::min(end_of(i), max_us);
  }
  return max_us;
}

}  // namespace sluice::gluon
