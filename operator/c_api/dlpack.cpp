#include <sluice/ndarray/dlpack.h>
#include <sluice/operator/c_api/detail/handles.h>

using namespace sluice;
using namespace sluice::c_api;

namespace {

DlpackStream stream_of(std::int64_t stream) {
  return stream == 0 ? DlpackStream() : DlpackStream(stream);
}

DlpackOptions options_of(std::int64_t stream, unsigned flags) {
  constexpr unsigned k_known = SLUICE_DLPACK_READ_ONLY | SLUICE_DLPACK_COPY;
  require<ValueError>((flags & ~k_known) == 0, [&] { return message("flags are ", flags, ", known are ", k_known); });
  return {
      .stream = stream_of(stream),
      .read_only = (flags & SLUICE_DLPACK_READ_ONLY) != 0,
      .copy = (flags & SLUICE_DLPACK_COPY) != 0};
}

// The tensor is given back whatever is wrong with `out`.
template <class Managed>
void import_to(Managed* tensor, std::int64_t stream, sluice_array_t* out) {
  const NDArray made = from_dlpack(tensor, stream_of(stream), SourceLocation());
  check_given("out", out);
  *out = new_handle(made);
}

}  // namespace

sluice_status sluice_to_dlpack(sluice_array_t array, std::int64_t stream, unsigned flags, DLManagedTensor** out) {
  return guarded("sluice_to_dlpack", [&] {
    check_given("out", out);
    *out = to_dlpack(array_of(array), options_of(stream, flags), SourceLocation());
  });
}

sluice_status sluice_to_dlpack_versioned(
    sluice_array_t array, std::int64_t stream, unsigned flags, DLManagedTensorVersioned** out) {
  return guarded("sluice_to_dlpack_versioned", [&] {
    check_given("out", out);
    *out = to_dlpack_versioned(array_of(array), options_of(stream, flags), SourceLocation());
  });
}

sluice_status sluice_from_dlpack(DLManagedTensor* tensor, std::int64_t stream, sluice_array_t* out) {
  return guarded("sluice_from_dlpack", [&] { import_to(tensor, stream, out); });
}

sluice_status sluice_from_dlpack_versioned(DLManagedTensorVersioned* tensor, std::int64_t stream, sluice_array_t* out) {
  return guarded("sluice_from_dlpack_versioned", [&] { import_to(tensor, stream, out); });
}
