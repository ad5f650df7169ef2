#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/element_size.h>
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

}  // namespace sluice::detail
