#include <exception>
#include <new>
#include <string>

#include <boost/thread/tss.hpp>

#include <sluice/engine/error.h>
#include <sluice/operator/c_api/detail/handles.h>

namespace sluice::c_api {

namespace {

// Not thread_local: such memory is scarce, and failures are rare.
boost::thread_specific_ptr<std::string> last_message;

template <class E>
bool is(const Error& error) noexcept {
  return dynamic_cast<const E*>(&error) != nullptr;
}

// Derived classes before their bases.
sluice_status status_of(const Error& error) noexcept {
  struct Row {
    bool (*is)(const Error&) noexcept;
    sluice_status status;
  };
  static constexpr Row k_rows[] = {
      {is<ShapeError>, SLUICE_SHAPE_ERROR},
      {is<DTypeError>, SLUICE_DTYPE_ERROR},
      {is<DeviceError>, SLUICE_DEVICE_ERROR},
      {is<ValueError>, SLUICE_VALUE_ERROR},
      {is<IndexError>, SLUICE_INDEX_ERROR},
      {is<FileError>, SLUICE_FILE_ERROR},
      {is<UnsupportedError>, SLUICE_UNSUPPORTED},
      {is<LibraryError>, SLUICE_LIBRARY_ERROR},
      {is<AutogradError>, SLUICE_AUTOGRAD_ERROR},
      {is<EngineStopped>, SLUICE_ENGINE_STOPPED},
      {is<Deadlock>, SLUICE_DEADLOCK},
      {is<ThreadError>, SLUICE_THREAD_ERROR},
      {is<Cancelled>, SLUICE_CANCELLED},
      {is<Forked>, SLUICE_FORKED},
      {is<OutOfMemory>, SLUICE_OUT_OF_MEMORY},
      {is<DeviceLost>, SLUICE_DEVICE_LOST},
      {is<CudaError>, SLUICE_CUDA_ERROR},
      {is<TaskFailed>, SLUICE_TASK_FAILED},
  };
  for (const Row& row : k_rows) {
    if (row.is(error))
      return row.status;
  }
  return SLUICE_OTHER_ERROR;
}

void keep_message(const char* function, const char* what) noexcept {
  try {
    last_message.reset(new std::string(message(function, ": ", what)));
  } catch (...) {
    if (last_message.get() != nullptr)
      last_message->clear();  // it was another failure's
  }
}

}  // namespace

sluice_status note_exception(const char* function) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    keep_message(function, error.what());
    return status_of(error);
  } catch (const std::bad_alloc&) {
    keep_message(function, "out of host memory");
    return SLUICE_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    keep_message(function, error.what());
  } catch (...) {
    keep_message(function, "an exception of unknown type");
  }
  return SLUICE_OTHER_ERROR;
}

void refuse_null(const char* what) {
  throw ValueError(message(what, " is NULL"));
}

Arrays arrays_of(const sluice_array_t* handles, std::size_t count) {
  if (count != 0)
    check_given("the list of arrays", handles);
  Arrays arrays;
  arrays.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    require<ValueError>(handles[i] != nullptr, [&] { return message("array ", i, " of ", count, " is NULL"); });
    arrays.push_back(array_of(handles[i]));
  }
  return arrays;
}

}  // namespace sluice::c_api

const char* sluice_error_message() {
  using namespace sluice::c_api;
  return last_message.get() == nullptr ? "" : last_message->c_str();
}
