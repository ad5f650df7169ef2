// Unrecorded copies and fills: which tasks, on which device, over which intermediate arrays.
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/engine.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/pipeline.h>
#include <sluice/storage/storage.h>

namespace sluice {
namespace {

using detail::ArrayObject;
using detail::CopyTo;

/// Elements of two arrays of one shape, as a task's body takes them along: small where both are contiguous.
struct Ends {
  void* to;
  const void* from;
  DType to_type, from_type;
};

void run_cast([[maybe_unused]] Queue queue, const detail::CopyPlan& plan, const Ends& ends) {
#ifdef SLUICE_CUDA
  if (queue.device().is_gpu())
    return detail::cast_on_gpu(queue.stream(), plan, ends.to, ends.to_type, ends.from, ends.from_type);
#endif
  detail::cast_on_cpu(plan, ends.to, ends.to_type, ends.from, ends.from_type);
}

void run_fill([[maybe_unused]] Queue queue, const detail::FillPlan& plan, void* to, DType type, Scalar value) {
#ifdef SLUICE_CUDA
  if (queue.device().is_gpu())
    return detail::fill_on_gpu(queue.stream(), plan, to, type, value);
#endif
  detail::fill_on_cpu(plan, to, type, value);
}

template <int K>
detail::StridedPlan<K> contiguous_plan(std::int64_t size) {
  detail::StridedPlan<K> plan;
  plan.size = plan.extents[0] = size;
  for (auto& strides : plan.strides)
    strides[0] = 1;
  return plan;
}

bool same_place(Device a, Device b) noexcept {
  return a == b || (a.is_cpu() && b.is_cpu());
}

std::uint64_t bytes_in(const ArrayObject& array) noexcept {
  return static_cast<std::uint64_t>(array.size) * size_of(array.dtype);
}

/// The array with the axes turned around along which `like` runs backwards: the same elements in another order.
NDArray turned_as(const NDArray& array, const ArrayObject& like) {
  const ArrayObject& object = *array.object();
  Shape strides = object.strides;
  std::int64_t offset = object.offset;
  for (int axis = 0; axis < strides.ndim(); ++axis) {
    if (like.strides[axis] >= 0)
      continue;
    offset += (object.shape[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  return detail::make_view(array, object.shape, strides, offset);
}

/// True if `body` has run where it was called, and made `target` from `source`, if there is one.
template <class Body>
bool ran_at_once(
    const char* name,
    const ArrayObject* source,
    const NDArray& to,
    Denormals denormals,
    SourceLocation site,
    Body&& body) {
  const ArrayObject& target = *to.object();
  const auto is_whole = [](const ArrayObject& array) {
    return array.device.is_cpu() && array.buffer->regions().size() == 1;
  };
  if (target.size > detail::k_short_size || !target.buffer->fresh() || !is_whole(target) ||
      (source != nullptr && !is_whole(*source)))
    return false;
  detail::VarCore* const read = source == nullptr ? nullptr : source->buffer->var().core();
  detail::VarCore* const made = target.buffer->var().core();
  const detail::AtOnce what{
      .name = name,
      .site = site,
      .reads = {&read, source == nullptr ? std::size_t{0} : std::size_t{1}},
      .makes = {&made, 1},
      .flush_denormals = denormals == Denormals::flush};
  if (!detail::EngineAccess::run_at_once(to.engine(), what, std::forward<Body>(body)))
    return false;
  target.buffer->begin_versions();
  return true;
}

/// Both arrays on one device.
void push_cast(const NDArray& from, const NDArray& to, SourceLocation site, CopyTo what = CopyTo::known) {
  const ArrayObject& source = *from.object();
  const ArrayObject& target = *to.object();
  if (detail::runs_backwards(target)) [[unlikely]]  // what is written is walked in the order of its memory
    return push_cast(turned_as(from, target), turned_as(to, target), site, what);
  const Ends ends{target.data(), source.data(), target.dtype, source.dtype};
  const auto plan = detail::plan_strided<2>(target.shape, {&target.strides, &source.strides}, detail::AxisOrder::free);
  const char* const name = source.dtype == target.dtype ? "copy" : "cast";
  const Denormals denormals = detail::denormals_of_cast(target.dtype, source.dtype);
  if (what == CopyTo::made &&
      ran_at_once(name, &source, to, denormals, site, [&](Queue queue) { run_cast(queue, plan, ends); }))
    return;
  target.buffer->raise_version();
  const Task task{
      .name = TaskName::lasting(name),
      .device = target.device,
      .access = detail::accesses_to_copy(source, target),
      .denormals = denormals,
      .capturable = true,
      .bytes = bytes_in(source) + bytes_in(target)};
  if (plan.contiguous()) {
    to.engine().push(
        task, [ends, size = plan.size](Queue queue) { run_cast(queue, contiguous_plan<2>(size), ends); }, site);
  } else {
    to.engine().push(
        task, [ends, plan](Queue queue) { run_cast(queue, plan, ends); }, site);
  }
}

#ifdef SLUICE_CUDA
/// Between two devices: same type, both contiguous; a CPU side is pinned, so the host does not wait for the copy.
void push_transfer(const NDArray& from, const NDArray& to, SourceLocation site) {
  const ArrayObject& source = *from.object();
  const ArrayObject& target = *to.object();
  const bool out = target.device.is_cpu();
  const bool peers = source.device.is_gpu() && target.device.is_gpu();
  target.buffer->raise_version();
  const Task task{
      .name = TaskName::lasting(
          out     ? "copy_out"
          : peers ? "copy_peer"
                  : "copy_in"),
      .device = out ? source.device : target.device,
      .access = detail::accesses_to_copy(source, target),
      .stream = out     ? StreamKind::copy_out
                : peers ? StreamKind::copy_peer
                        : StreamKind::copy_in,
      .capturable = true,
      .bytes = 2 * bytes_in(target)};
  const std::size_t bytes = bytes_in(target);
  if (peers) {
    Storage::of(to.engine()).connect(source.device, target.device);
    to.engine().push(
        task,
        [a = source.data(), b = target.data(), x = source.device.index, y = target.device.index, bytes](Queue queue) {
          detail::copy_bytes_between_gpus(queue.stream(), b, y, a, x, bytes);
        },
        site);
  } else {
    to.engine().push(
        task,
        [a = source.data(), b = target.data(), bytes](Queue queue) { detail::copy_bytes(queue.stream(), b, a, bytes); },
        site);
  }
}

/// Can the array be one end of a transfer of elements of type `wire`?
bool is_transferable(const ArrayObject& array, DType wire) noexcept {
  return array.dtype == wire && detail::is_contiguous(array) &&
         (array.device.is_gpu() || array.buffer->chunk().kind == MemoryKind::pinned);
}

/// How the transfer is cut where the host's end is none that GPUs copy from or to.
std::optional<detail::Slicing> slicing_for(const ArrayObject& host, DType wire) {
  return is_transferable(host, wire) ? std::nullopt : detail::slicing_of(host.shape, host.strides, host.dtype, wire);
}

void push_in_slices(
    const NDArray& from, const NDArray& to, DType wire, const detail::Slicing& slicing, SourceLocation site) {
  const ArrayObject& source = *from.object();
  const ArrayObject& target = *to.object();
  const bool outward = target.device.is_cpu();
  const ArrayObject &host = outward ? target : source, &far = outward ? source : target;
  const Denormals denormals = detail::denormals_of_cast(wire, host.dtype);
  const detail::SlicedCopy copy{outward, wire, host.data(), host.dtype, far.data(), far.device, slicing, denormals};
  target.buffer->raise_version();
  detail::push_sliced(to.engine(), copy, detail::accesses_to_copy(source, target), site);
}

/// The type with the smaller elements goes over the bus; arrays that cannot be an end get one beside them.
void copy_between(const NDArray& from, const NDArray& to, SourceLocation site) {
  const ArrayObject& source = *from.object();
  const ArrayObject& target = *to.object();
  const DType wire = size_of(target.dtype) <= size_of(source.dtype) ? target.dtype : source.dtype;
  const bool outward = target.device.is_cpu();
  std::optional<detail::Slicing> slicing;
  if (outward != source.device.is_cpu())
    slicing = slicing_for(outward ? target : source, wire);
  const auto end_beside = [&](const ArrayObject& array, bool cut, bool lands) {
    if (cut || is_transferable(array, wire))
      return NDArray();
    return detail::make_empty(
        to.engine(),
        array.shape,
        {.dtype = wire, .device = array.device, .pinned = array.device.is_cpu(), .copied_into = lands});
  };
  NDArray sent = end_beside(source, slicing && !outward, false);
  NDArray landed = end_beside(target, slicing && outward, true);
  if (sent.defined()) {
    push_cast(from, sent, site);
  } else {
    sent = from;
  }
  const NDArray& arrived = landed.defined() ? landed : to;
  if (slicing) {
    push_in_slices(sent, arrived, wire, *slicing, site);
  } else {
    push_transfer(sent, arrived, site);
  }
  if (landed.defined())
    push_cast(landed, to, site);
}
#endif

/// First and last element's places in the buffer.
bool ranges_meet(const ArrayObject& a, const ArrayObject& b) noexcept {
  const auto range = [](const ArrayObject& array) {
    std::pair places(array.offset, array.offset);
    for (int axis = 0; axis < array.shape.ndim(); ++axis) {
      const std::int64_t span = (array.shape[axis] - 1) * array.strides[axis];
      (span < 0 ? places.first : places.second) += span;
    }
    return places;
  };
  const auto [a_first, a_last] = range(a);
  const auto [b_first, b_last] = range(b);
  return a_first <= b_last && b_first <= a_last;
}

const ArrayObject& writable(const NDArray& to, const char* op) {
  const ArrayObject& target = detail::with_data(op, detail::object_of(to, op));
  require<ValueError>(!detail::overlaps_itself(target), [&] {
    return message(op, ": a stretched view of shape ", target.shape, " names elements twice and is not written");
  });
  return target;
}

}  // namespace

void detail::push_copy(const NDArray& from, const NDArray& to, SourceLocation site, CopyTo what) {
  const ArrayObject& source = detail::with_data("copy", detail::object_of(from, "copy"));
  const ArrayObject& target = writable(to, "copy");
  require<ShapeError>(source.shape == target.shape, [&] {
    return message("copy: shape ", source.shape, " into shape ", target.shape);
  });
  if (target.size == 0)
    return;
  if (source.buffer == target.buffer) {
    if (source.offset == target.offset && source.strides == target.strides && source.dtype == target.dtype)
      return;
    if (ranges_meet(source, target)) {
      const NDArray between = empty_like(from);
      push_cast(from, between, site, CopyTo::made);
      return push_cast(between, to, site);
    }
  }
  if (same_place(source.device, target.device))
    return push_cast(from, to, site, what);
#ifdef SLUICE_CUDA
  copy_between(from, to, site);
#endif
}

void detail::push_fill(const NDArray& array, Scalar value, SourceLocation site, CopyTo what) {
  const ArrayObject& target = writable(array, "fill");
  detail::check_fits("fill", value, target.dtype);
  if (target.size == 0)
    return;
  if (detail::runs_backwards(target)) [[unlikely]]
    return push_fill(turned_as(array, target), value, site);
  const auto plan = detail::plan_strided<1>(target.shape, {&target.strides}, detail::AxisOrder::free);
  void* const to = target.data();
  const DType type = target.dtype;
  auto run = [=](Queue queue) { run_fill(queue, plan, to, type, value); };
  if (what == CopyTo::made && ran_at_once("fill", nullptr, array, Denormals::keep, site, run))
    return;
  target.buffer->raise_version();
  const Task task{
      .name = "fill",
      .device = target.device,
      .access = detail::accesses_to_write(target),
      .capturable = true,
      .bytes = bytes_in(target)};
  if (plan.contiguous()) {
    array.engine().push(
        task,
        [to, type, value, size = plan.size](Queue queue) {
          run_fill(queue, contiguous_plan<1>(size), to, type, value);
        },
        site);
  } else {
    array.engine().push(task, run, site);
  }
}

}  // namespace sluice
