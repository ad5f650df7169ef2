#include <memory>
#include <utility>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/destination.h>
#include <sluice/operator/detail/raised_versions.h>
#include <sluice/operator/push_task.h>

namespace sluice {

namespace {

/// What the task carries.
struct OwnCall {
  std::vector<TensorView> reads, writes;
  std::function<void(const ArrayCall&)> body;
};

void check(const char* name, const NDArray& array, const NDArray& first) {
  require<ValueError>(array.defined(), [&] { return message(name, ": one of its arrays is undefined"); });
  detail::with_data(name, *array.object());
  require<DeviceError>(array.device() == first.device(), [&] {
    return message(name, ": its arrays are on ", first.device(), " and ", array.device());
  });
  require<ValueError>(
      &array.engine() == &first.engine(), [&] { return message(name, ": its arrays belong to different engines"); });
}

TensorView view_of(const detail::ArrayObject& array) {
  return {array.data(), array.shape, array.strides, array.size, array.dtype, array.contiguous};
}

}  // namespace

TaskHandle push_task(
    Task task, const TaskArrays& arrays, std::function<void(const ArrayCall&)> body, SourceLocation site) {
  return detail::located(site, [&] {
    const std::string name = message("push_task \"", task.name.c_str(), "\"");
    require<ValueError>(body != nullptr, [&] { return message(name, ": there is no body"); });
    require<ValueError>(
        !arrays.reads.empty() || !arrays.writes.empty(), [&] { return message(name, ": it names no array"); });
    const NDArray& first = arrays.reads.empty() ? arrays.writes[0] : arrays.reads[0];
    for (const auto* some : {&arrays.reads, &arrays.writes}) {
      for (const NDArray& array : *some)
        check(name.c_str(), array, first);
    }
    auto call = std::make_unique<OwnCall>();
    call->body = std::move(body);
    for (const NDArray& array : arrays.writes) {
      detail::check_writable(name.c_str(), array);
      detail::check_in_place(name.c_str(), array, false);
      detail::check_seen(
          name, array, "have the task write to the array itself, or to a .copy() that is looked at afterwards", site);
      call->writes.push_back(view_of(*array.object()));
      detail::add_touched(task.access, *array.object(), AccessMode::write);
    }
    for (const NDArray& array : arrays.reads) {
      call->reads.push_back(view_of(*array.object()));
      detail::add_touched(task.access, *array.object(), AccessMode::read);
    }
    task.device = first.device();
    detail::RaisedVersions versions;
    for (const NDArray& array : arrays.writes)
      versions.raise(*array.object()->buffer);
    TaskHandle pushed = first.engine().push(
        task,
        [call = std::move(call)](Queue queue) {
          call->body({call->reads, call->writes, queue});
        },
        site);
    versions.pushed();
    if (autograd::is_recording()) {  // what these held came of operators, and what they hold now does not
      for (const NDArray& array : arrays.writes) {
        if (autograd::on_tape(array))
          autograd::set_entry(array, {}, 0);
      }
    }
    return pushed;
  });
}

}  // namespace sluice
