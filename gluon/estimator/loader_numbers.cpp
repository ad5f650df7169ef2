#include <bit>
#include <cstddef>
#include <iterator>

#include <sluice/gluon/detail/loader_numbers.h>

namespace sluice::gluon::detail {

namespace {

constexpr std::size_t k_plain = 8;  // before the letters of last_batch, whose number is the last of them

}  // namespace

std::vector<std::int64_t> numbers_of(const data::DataLoaderState& state) {
  std::vector<std::int64_t> numbers = {
      state.num_samples,
      state.batch_size,
      state.shuffle ? 1 : 0,
      state.epochs,
      state.position,
      std::bit_cast<std::int64_t>(state.order.seed),
      std::bit_cast<std::int64_t>(state.order.offset),
      std::ssize(state.last_batch)};
  for (const char letter : state.last_batch)
    numbers.push_back(static_cast<unsigned char>(letter));
  numbers.insert(numbers.end(), state.carried.begin(), state.carried.end());
  return numbers;
}

std::optional<data::DataLoaderState> loader_state_of(std::span<const std::int64_t> numbers) {
  if (numbers.size() < k_plain)
    return {};
  const std::int64_t length = numbers[k_plain - 1];
  if (length < 0 || length > std::ssize(numbers) - static_cast<std::ptrdiff_t>(k_plain))
    return {};
  data::DataLoaderState state{
      .num_samples = numbers[0],
      .batch_size = numbers[1],
      .shuffle = numbers[2] != 0,
      .epochs = numbers[3],
      .position = numbers[4],
      .order = {std::bit_cast<std::uint64_t>(numbers[5]), std::bit_cast<std::uint64_t>(numbers[6])}};
  for (const std::int64_t letter : numbers.subspan(k_plain, static_cast<std::size_t>(length)))
    state.last_batch += static_cast<char>(letter);
  const auto carried = numbers.subspan(k_plain + static_cast<std::size_t>(length));
  state.carried.assign(carried.begin(), carried.end());
  return state;
}

}  // namespace sluice::gluon::detail
