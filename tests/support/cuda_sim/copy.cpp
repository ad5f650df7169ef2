// Copies and fills.
#include <cstring>

#include "tests/support/cuda_sim/world.h"

using namespace sluice::test::sim;

namespace {

enum class Place : std::uint8_t { device, pinned, pageable };

/// Where memory is. Throws Refusal if the range leaves its block.
Place place_of(const World& all, const void* address, std::size_t bytes) {
  const auto* const found = all.block_of(address);
  if (found == nullptr)
    return Place::pageable;
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - found->first);
  if (offset + bytes > found->second.bytes)
    throw Refusal{cudaErrorInvalidValue};
  return found->second.kind == MemoryKind::host ? Place::pinned : Place::device;
}

bool fits(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::device, from_device = from == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:  // pinned memory has an address on the device
      return to != Place::pageable && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from != Place::pageable;
    case cudaMemcpyDeviceToDevice:
      return to != Place::pageable && from != Place::pageable;
    default:
      return kind == cudaMemcpyDefault;
  }
}

Work plain_copy(void* to, const void* from, std::size_t bytes) {
  return std::make_shared<const std::function<void()>>([=] { std::memmove(to, from, bytes); });
}

// What pageable memory holds at the time of the call.
Work staged_copy(void* to, const void* from, std::size_t bytes) {
  auto staged = std::make_shared<std::vector<char>>(bytes);
  const Seen seen;
  std::memcpy(staged->data(), from, bytes);
  return std::make_shared<const std::function<void()>>([=] { std::memcpy(to, staged->data(), staged->size()); });
}

cudaError_t copy(
    World& all,
    Lock& hold,
    void* to,
    const void* from,
    std::size_t bytes,
    cudaMemcpyKind kind,
    cudaStream_t where,
    bool blocks) {
  CUstream_st& stream = all.stream(where);
  const Capture* const capture = all.capture_of(stream);
  if (bytes == 0)
    return cudaSuccess;
  const Place target = place_of(all, to, bytes), source = place_of(all, from, bytes);
  if (!fits(kind, target, source))
    return cudaErrorInvalidValue;
  const bool staged = source == Place::pageable && target == Place::device && capture == nullptr;
  Node node{
      .kind = Kind::copy,
      .work = staged ? staged_copy(to, from, bytes) : plain_copy(to, from, bytes),
      .touches = {{static_cast<const char*>(to), bytes}}};
  if (!staged)
    node.touches.push_back({static_cast<const char*>(from), bytes});
  const OpRef op = all.add(stream, std::move(node));
  // Into pageable memory, and from host to host, CUDA makes the host wait.
  if (op != nullptr && (blocks || target == Place::pageable || (target == Place::pinned && source != Place::device)))
    all.wait(hold, op);
  return cudaSuccess;
}

cudaError_t fill(World& all, void* to, int value, std::size_t bytes, cudaStream_t where, OpRef* made) {
  CUstream_st& stream = all.stream(where);
  all.capture_of(stream);
  if (bytes == 0)
    return cudaSuccess;
  if (place_of(all, to, bytes) == Place::pageable)
    return cudaErrorInvalidValue;
  auto work = std::make_shared<const std::function<void()>>([=] { std::memset(to, value, bytes); });
  *made = all.add(
      stream, {.kind = Kind::fill, .work = std::move(work), .touches = {{static_cast<const char*>(to), bytes}}});
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call(
      "cudaMemcpyAsync", [&](World& all, Lock& hold) { return copy(all, hold, to, from, bytes, kind, stream, false); });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", [&](World& all, Lock& hold) {
    all.check_unsafe();
    return copy(all, hold, to, from, bytes, kind, nullptr, true);
  });
}

cudaError_t cudaMemcpyPeerAsync(
    void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream) {
  return call("cudaMemcpyPeerAsync", [&](World& all, Lock& hold) {
    all.check_device(to_device);
    all.check_device(from_device);
    return copy(all, hold, to, from, bytes, cudaMemcpyDeviceToDevice, stream, false);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", [&](World& all, Lock&) {
    OpRef made;
    return fill(all, to, value, bytes, stream, &made);
  });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return call("cudaMemset", [&](World& all, Lock& hold) {
    all.check_unsafe();
    OpRef made;
    const cudaError_t status = fill(all, to, value, bytes, nullptr, &made);
    if (status == cudaSuccess)
      all.wait(hold, made);
    return status;
  });
}
