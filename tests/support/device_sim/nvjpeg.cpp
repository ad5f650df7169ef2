#include "tests/support/device_sim/nvjpeg.h"

#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#ifdef SLUICE_JPEG
#include <jpeglib.h>
#endif

#include <sluice/operator/library/nvjpeg_calls_cuda.h>

#include "tests/support/cuda_sim/sim.h"

namespace {

using namespace sluice::detail::nvjpeg;

std::mutex mutex;
device_sim::NvjpegFigures figures;
std::atomic<bool> is_present{true};
std::string failing;
int fails_at = 0, fails_with = 0;

void misused() {
  const std::lock_guard hold(mutex);
  ++figures.misuses;
}

void count(const char* kind, int more) {
  const std::lock_guard hold(mutex);
  figures.live[kind] += more;
  if (more > 0 && std::string(kind) == "state")
    ++figures.made_states;
}

Status planned(const char* function) {
  const std::lock_guard hold(mutex);
  if (failing != function || --fails_at != 0)
    return k_success;
  failing.clear();
  return static_cast<Status>(fails_with);
}

// Objects that are used by one thread at a time.
struct Object {
  std::atomic<int> users{0};
};
class Use {
 public:
  explicit Use(Object& object) : object_(object) {
    if (object_.users++ != 0)
      misused();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { --object_.users; }

 private:
  Object& object_;
};

/// Page-locked memory, and how many kernels are still to read it.
struct Pinned : Object {
  std::vector<unsigned char> bytes;
  std::atomic<int> readers{0};
};
struct OnDevice : Object {
  DeviceAllocator allocator{};
  void* memory = nullptr;
  std::size_t bytes = 0;
};
struct Bits : Object {
  const unsigned char* data = nullptr;
  std::size_t length = 0;
  unsigned width = 0, height = 0;
};
struct Told : Object {
  OutputFormat format = k_rgb_interleaved;
};
struct Progress : Object {
  Pinned* pinned = nullptr;
  OnDevice* device = nullptr;
  unsigned width = 0, height = 0, channels = 0;
  int step = 0;             // 1: read, 2: brought over
  bool is_spoiled = false;  // by a call that failed
  std::size_t row() const { return std::size_t{width} * channels; }
  std::size_t bytes() const { return row() * height; }
};

template <class Made, class Opaque>
Status make(const char* kind, Opaque* to) {
  *to = reinterpret_cast<Opaque>(new Made());
  count(kind, 1);
  return k_success;
}
template <class Made, class Opaque>
Status destroy(const char* kind, Opaque object) {
  auto* const made = reinterpret_cast<Made*>(object);
  if (made->users != 0)
    misused();
  delete made;
  count(kind, -1);
  return k_success;
}
template <class Made, class Opaque>
Made& as(Opaque object) {
  return *reinterpret_cast<Made*>(object);
}

#ifdef SLUICE_JPEG

struct Failure {
  jpeg_error_mgr manager;
  std::jmp_buf back;
};

// Warnings are no errors: nvJPEG takes what libjpeg only warns of.
jpeg_error_mgr* start(Failure& failure) {
  jpeg_std_error(&failure.manager);
  failure.manager.error_exit = [](j_common_ptr codec) {
    std::longjmp(reinterpret_cast<Failure*>(codec->err)->back, 1);
  };
  failure.manager.output_message = [](j_common_ptr) {};
  return &failure.manager;
}

Status parse(Bits& bits) {
  Failure failure;
  jpeg_decompress_struct jpeg;
  jpeg.err = start(failure);
  if (setjmp(failure.back) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return k_bad_jpeg;
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, const_cast<unsigned char*>(bits.data), bits.length);
  jpeg_read_header(&jpeg, TRUE);
  bits.width = jpeg.image_width;
  bits.height = jpeg.image_height;
  jpeg_destroy_decompress(&jpeg);
  return k_success;
}

Status decode(const Bits& bits, unsigned channels, unsigned char* to) {
  Failure failure;
  jpeg_decompress_struct jpeg;
  jpeg.err = start(failure);
  if (setjmp(failure.back) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return k_bad_jpeg;
  }
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, const_cast<unsigned char*>(bits.data), bits.length);
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW rows[] = {to + std::size_t{jpeg.output_scanline} * jpeg.output_width * channels};
    jpeg_read_scanlines(&jpeg, rows, 1);
  }
  jpeg_destroy_decompress(&jpeg);
  return k_success;
}

#else

Status parse(Bits&) {
  return k_jpeg_not_supported;
}
Status decode(const Bits&, unsigned, unsigned char*) {
  return k_jpeg_not_supported;
}

#endif

Status read_on_host(Progress& progress, const Told& told, const Bits& bits) {
  Pinned& pinned = *progress.pinned;
  const Use use(pinned);
  if (pinned.readers != 0 || progress.device == nullptr || progress.is_spoiled)
    misused();
  progress.width = bits.width;
  progress.height = bits.height;
  progress.channels = told.format == k_luma ? 1 : 3;
  progress.step = 1;
  pinned.bytes.resize(progress.bytes());
  return decode(bits, progress.channels, pinned.bytes.data());
}

Status bring_over(Progress& progress, cudaStream_t stream) {
  if (std::exchange(progress.step, 2) != 1)
    misused();
  OnDevice& device = *progress.device;
  if (device.allocator.take(device.allocator.context, &device.memory, progress.bytes(), stream) != 0)
    return k_allocator_failure;
  device.bytes = progress.bytes();
  ++progress.pinned->readers;
  sluice::test::sim::launch(stream, [from = progress.pinned, to = device.memory, n = device.bytes] {
    std::memcpy(to, from->bytes.data(), n);
    --from->readers;
  });
  return k_success;
}

Status finish(Progress& progress, const Image& image, cudaStream_t stream) {
  if (std::exchange(progress.step, 0) != 2)
    misused();
  const auto* const from = static_cast<const unsigned char*>(std::exchange(progress.device, nullptr)->memory);
  sluice::test::sim::launch(
      stream, [from, to = image.channel[0], pitch = image.pitch[0], row = progress.row(), rows = progress.height] {
        for (std::size_t i = 0; i < rows; ++i)
          std::memcpy(to + i * pitch, from + i * row, row);
      });
  const std::lock_guard hold(mutex);
  ++figures.decoded;
  return k_success;
}

#define SLUICE_PLANNED(function)                                   \
  if (const Status fails = planned(#function); fails != k_success) \
  return fails

#define SLUICE_PLANNED_OF(function, state)                         \
  if (const Status fails = planned(#function); fails != k_success) \
  return (state).is_spoiled = true, fails

void fill_objects(Calls& to) {
  to.nvjpegCreateEx = [](Backend, void*, void*, unsigned, Handle* made) {
    SLUICE_PLANNED(nvjpegCreateEx);
    return make<Object>("handle", made);
  };
  to.nvjpegDestroy = [](Handle handle) { return destroy<Object>("handle", handle); };
  to.nvjpegDecoderCreate = [](Handle, Backend, Decoder* made) {
    SLUICE_PLANNED(nvjpegDecoderCreate);
    return make<Object>("decoder", made);
  };
  to.nvjpegDecoderDestroy = [](Decoder decoder) { return destroy<Object>("decoder", decoder); };
  to.nvjpegDecoderStateCreate = [](Handle, Decoder, State* made) {
    SLUICE_PLANNED(nvjpegDecoderStateCreate);
    return make<Progress>("state", made);
  };
  to.nvjpegJpegStateDestroy = [](State state) { return destroy<Progress>("state", state); };
  to.nvjpegJpegStreamCreate = [](Handle, Bitstream* made) {
    SLUICE_PLANNED(nvjpegJpegStreamCreate);
    return make<Bits>("bitstream", made);
  };
  to.nvjpegJpegStreamDestroy = [](Bitstream bits) { return destroy<Bits>("bitstream", bits); };
  to.nvjpegDecodeParamsCreate = [](Handle, Params* made) {
    SLUICE_PLANNED(nvjpegDecodeParamsCreate);
    return make<Told>("params", made);
  };
  to.nvjpegDecodeParamsDestroy = [](Params params) { return destroy<Told>("params", params); };
  to.nvjpegBufferPinnedCreate = [](Handle, void*, PinnedBuffer* made) {
    SLUICE_PLANNED(nvjpegBufferPinnedCreate);
    return make<Pinned>("pinned", made);
  };
  to.nvjpegBufferPinnedDestroy = [](PinnedBuffer pinned) {
    if (as<Pinned>(pinned).readers != 0)
      misused();
    return destroy<Pinned>("pinned", pinned);
  };
  to.nvjpegBufferDeviceCreateV2 = [](Handle, DeviceAllocator* allocator, DeviceBuffer* made) {
    SLUICE_PLANNED(nvjpegBufferDeviceCreateV2);
    make<OnDevice>("device", made);
    as<OnDevice>(*made).allocator = *allocator;
    return k_success;
  };
  to.nvjpegBufferDeviceDestroy = [](DeviceBuffer buffer) {
    OnDevice& device = as<OnDevice>(buffer);
    if (device.memory != nullptr)
      device.allocator.give(device.allocator.context, device.memory, device.bytes, nullptr);
    return destroy<OnDevice>("device", buffer);
  };
}

void fill_steps(Calls& to) {
  to.nvjpegDecodeParamsSetOutputFormat = [](Params params, OutputFormat format) {
    as<Told>(params).format = format;
    return k_success;
  };
  to.nvjpegStateAttachPinnedBuffer = [](State state, PinnedBuffer pinned) {
    as<Progress>(state).pinned = &as<Pinned>(pinned);
    return k_success;
  };
  to.nvjpegStateAttachDeviceBuffer = [](State state, DeviceBuffer device) {
    as<Progress>(state).device = &as<OnDevice>(device);
    return k_success;
  };
  to.nvjpegJpegStreamParse = [](Handle, const unsigned char* data, std::size_t length, int, int, Bitstream to_fill) {
    SLUICE_PLANNED(nvjpegJpegStreamParse);
    Bits& bits = as<Bits>(to_fill);
    const Use use(bits);
    bits.data = data;
    bits.length = length;
    return parse(bits);
  };
  to.nvjpegJpegStreamGetFrameDimensions = [](Bitstream bits, unsigned* width, unsigned* height) {
    *width = as<Bits>(bits).width;
    *height = as<Bits>(bits).height;
    return k_success;
  };
  to.nvjpegDecoderJpegSupported = [](Decoder, Bitstream, Params, int* is_not) {
    *is_not = planned("nvjpegDecoderJpegSupported") == k_success ? 0 : 1;
    return k_success;
  };
  to.nvjpegDecodeJpegHost = [](Handle, Decoder, State state, Params params, Bitstream bits) {
    Progress& progress = as<Progress>(state);
    const Use use(progress);
    SLUICE_PLANNED_OF(nvjpegDecodeJpegHost, progress);
    const Status status = read_on_host(progress, as<Told>(params), as<Bits>(bits));
    progress.is_spoiled |= status != k_success;
    return status;
  };
  to.nvjpegDecodeJpegTransferToDevice = [](Handle, Decoder, State state, Bitstream, cudaStream_t stream) {
    const Use use(as<Progress>(state));
    SLUICE_PLANNED_OF(nvjpegDecodeJpegTransferToDevice, as<Progress>(state));
    return bring_over(as<Progress>(state), stream);
  };
  to.nvjpegDecodeJpegDevice = [](Handle, Decoder, State state, Image* image, cudaStream_t stream) {
    const Use use(as<Progress>(state));
    SLUICE_PLANNED_OF(nvjpegDecodeJpegDevice, as<Progress>(state));
    return finish(as<Progress>(state), *image, stream);
  };
}

}  // namespace

const Calls* sluice::detail::nvjpeg::calls() {
  static const Calls all = [] {
    Calls made{};
    fill_objects(made);
    fill_steps(made);
    return made;
  }();
  return is_present ? &all : nullptr;
}

device_sim::NvjpegFigures device_sim::nvjpeg_figures() {
  const std::lock_guard hold(mutex);
  return figures;
}

void device_sim::set_nvjpeg_present(bool present) {
  is_present = present;
}

void device_sim::fail_nvjpeg(const std::string& function, int n, int status) {
  const std::lock_guard hold(mutex);
  failing = function;
  fails_at = n;
  fails_with = status;
}
