#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/control/detail/body.h>
#include <sluice/operator/control/detail/turns.h>
#include <sluice/operator/detail/operator_node.h>

namespace sluice {

namespace {

constexpr const char* k_name = "foreach";

std::int64_t length_of(const Arrays& data) {
  require<ValueError>(!data.empty(), [] { return "foreach: was given no data to go through"; });
  control::check_defined(k_name, "data", data);
  for (const NDArray& array : data) {
    require<ShapeError>(array.ndim() > 0, [] { return "foreach: data without axes has no entries"; });
    require<ShapeError>(array.shape()[0] == data[0].shape()[0], [&] {
      return message(
          "foreach: data of shapes ", data[0].shape(), " and ", array.shape(), " have other numbers of entries");
    });
  }
  return data[0].shape()[0];
}

std::vector<ArraySpec> specs_of_entries(const Arrays& data) {
  std::vector<ArraySpec> specs;
  for (const NDArray& array : data) {
    specs.push_back({array.shape(), array.dtype(), array.device()});
    specs.back().shape.erase(0);
  }
  return specs;
}

// Turn by turn; calls that are taken come to the sink one after the other.
LoopResult unrolled(const ForeachBody& body, const Arrays& data, const Arrays& states, SourceLocation site) {
  const std::int64_t length = data[0].shape()[0];
  control::Turns turns(k_name, states);
  std::vector<std::vector<NDArray>> entries;
  for (const NDArray& array : data)
    entries.push_back(control::entries_of(array, site));
  for (std::int64_t turn = 0; turn < length; ++turn) {
    Arrays here;
    for (const auto& array : entries)
      here.push_back(array[static_cast<std::size_t>(turn)]);
    turns.add(body(here, turns.states()));
  }
  if (length == 0)
    turns.none_taken(control::specs_of_outputs(body, specs_of_entries(data), states, k_name));
  return {turns.stacked(length, site), turns.states()};
}

}  // namespace

LoopResult foreach (const ForeachBody& body, const Arrays& data, const Arrays& states, SourceLocation site) {
  return detail::located(site, [&]() -> LoopResult {
    (void)length_of(data);
    return unrolled(body, data, states, site);
  });
}

}  // namespace sluice
