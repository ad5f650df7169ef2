#include <algorithm>
#include <numeric>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/order/places.h>

namespace sluice::detail {

namespace {

/// Calls move(place's offset in x, offset in places) for all of `places`, entry by entry of the axis.
template <class Move>
void for_each_place(const KernelCall& call, const TensorView& places, const Shape& x, const Move& move) {
  const int axis = static_cast<int>(call.attributes.as<PlacesAttributes>().axis);
  const AxisLayout at = axis_layout(places.shape, axis);
  const std::int64_t n = x[axis], least = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, at.inner));
  if (places.size == 0)
    return;
  parallel_for(at.outer * at.n, least, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slice = begin; slice < end; ++slice) {
      const std::int64_t base = slice / at.n * n * at.inner;
      for (std::int64_t j = 0; j < at.inner; ++j) {
        const std::int64_t from = slice * at.inner + j, place = load_index(places.data, places.dtype, from);
        require<IndexError>(place >= 0 && place < n, [&] {
          return message(call.op.name, ": index ", place, " is out of bounds for axis ", axis, " with size ", n);
        });
        move(base + place * at.inner + j, from);
      }
    }
  });
}

}  // namespace

void take_places_cpu(const KernelCall& call) {
  by_element_size(size_of(call.inputs[0].dtype), [&]<class U>() {
    const U* const x = call.inputs[0].as<const U>();
    U* const y = call.outputs[0].as<U>();
    for_each_place(
        call, call.inputs[1], call.inputs[0].shape, [=](std::int64_t place, std::int64_t at) { y[at] = x[place]; });
  });
}

void put_places_cpu(const KernelCall& call) {
  by_element_size(size_of(call.inputs[1].dtype), [&]<class U>() {
    const U* const dy = call.inputs[1].as<const U>();
    U* const dx = call.outputs[0].as<U>();
    std::fill_n(dx, call.outputs[0].size, U{0});
    for_each_place(
        call, call.inputs[0], call.outputs[0].shape, [=](std::int64_t place, std::int64_t at) { dx[place] = dy[at]; });
  });
}

// A piece first says how many there are, so that each knows where its own go.
void true_places_cpu(const KernelCall& call) {
  constexpr std::int64_t k_piece = 1 << 15;
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const auto* const truths = x.as<const std::uint8_t>();
  auto* const places = y.as<std::int64_t>();
  const std::int64_t pieces = (x.size + k_piece - 1) / k_piece;
  std::vector<std::int64_t> ends(static_cast<std::size_t>(pieces) + 1);
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t first = piece * k_piece, last = std::min(first + k_piece, x.size);
      std::int32_t count = 0;
      for (std::int64_t i = first; i < last; ++i)
        count += truths[i] != 0 ? 1 : 0;
      ends[piece + 1] = count;
    }
  });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  require<ValueError>(ends.back() == y.size, [&] {
    return message(call.op.name, ": ", ends.back(), " truths are true, not ", y.size);
  });
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      std::int64_t i = piece * k_piece;
      // Each place is written until the true one comes: no branch depends on the truths.
      for (std::int64_t at = ends[piece]; at < ends[piece + 1]; ++i) {
        places[at] = i;
        at += truths[i] != 0 ? 1 : 0;
      }
    }
  });
}

}  // namespace sluice::detail
