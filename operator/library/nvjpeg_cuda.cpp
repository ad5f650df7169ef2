#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/handle.h>
#include <sluice/engine/error.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/nvjpeg.h>
#include <sluice/operator/library/nvjpeg_calls_cuda.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

using namespace nvjpeg;

// Page-locked memory grows with the images and would stay as large as one of these needs.
constexpr std::int64_t k_large = std::int64_t{1} << 22;

/// An object of the library's that goes with this.
template <class T>
class Owned {
 public:
  using Destroy = Status (*)(T);
  explicit Owned(Destroy destroy) noexcept : destroy_(destroy) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { drop(); }
  T get() const noexcept { return raw_; }
  T* to_make() noexcept { return &raw_; }
  void drop() noexcept {
    if (raw_ != nullptr)
      destroy_(std::exchange(raw_, nullptr));
  }

 private:
  const Destroy destroy_;
  T raw_ = nullptr;
};

// A call that failed may have left CUDA's error behind, which is not for the next call to find.
bool succeeded(Status status) noexcept {
  if (status == k_success) [[likely]]
    return true;
  cudaGetLastError();
  return false;
}

/// The GPU's memory of one image, taken and given within its task.
class Scratch {
 public:
  DeviceAllocator* allocator() noexcept { return &allocator_; }
  void begin(const Queue& queue) noexcept {
    queue_ = &queue;
    failure_ = nullptr;
  }
  void end() noexcept {
    held_.clear();
    queue_ = nullptr;
  }
  /// Why there was none.
  const std::exception_ptr& failure() const noexcept { return failure_; }

 private:
  static int take(void* context, void** memory, std::size_t bytes, cudaStream_t) noexcept {
    auto& mine = *static_cast<Scratch*>(context);
    if (mine.queue_ == nullptr)  // outside of a task it would belong to nobody
      return cudaErrorMemoryAllocation;
    try {
      mine.held_.push_back(std::make_unique<Workspace>(*mine.queue_, bytes));
      *memory = mine.held_.back()->data();
      return cudaSuccess;
    } catch (...) {
      mine.failure_ = std::current_exception();
      return cudaErrorMemoryAllocation;
    }
  }
  static int give(void* context, void* memory, std::size_t, cudaStream_t) noexcept {
    auto& held = static_cast<Scratch*>(context)->held_;
    const auto found = std::find_if(held.begin(), held.end(), [&](const auto& one) { return one->data() == memory; });
    if (found != held.end())
      held.erase(found);
    return cudaSuccess;
  }

  DeviceAllocator allocator_{&take, &give, this};
  const Queue* queue_ = nullptr;
  std::vector<std::unique_ptr<Workspace>> held_;
  std::exception_ptr failure_;
};

}  // namespace

struct NvjpegHandle::Made {
  explicit Made(const Calls& found, int index) noexcept : calls(found), gpu(index), handle(found.nvjpegDestroy) {}
  const Calls& calls;
  const int gpu;
  Owned<Handle> handle;
};

NvjpegHandle::NvjpegHandle(std::unique_ptr<Made> made) noexcept : made_(std::move(made)) {}

NvjpegHandle::~NvjpegHandle() {
  try {
    const cuda::DeviceScope scope(made_->gpu);
    made_.reset();
  } catch (const CudaError&) {  // the GPU is lost, and what was on it
  }
}

std::shared_ptr<const NvjpegHandle> NvjpegHandle::of(Device gpu) noexcept {
  try {
    const Calls* const found = calls();
    if (found == nullptr)
      return nullptr;
    const cuda::DeviceScope scope(gpu.index);
    auto made = std::make_unique<Made>(*found, gpu.index);
    constexpr unsigned k_flags = k_strict | k_interpolated_chroma;
    if (!succeeded(found->nvjpegCreateEx(k_hybrid, nullptr, nullptr, k_flags, made->handle.to_make())))
      return nullptr;
    return std::shared_ptr<const NvjpegHandle>(new NvjpegHandle(std::move(made)));
  } catch (const std::exception&) {
    return nullptr;
  }
}

/// In the order in which they are made; they go in the other.
struct NvjpegDecoder::Parts {
  explicit Parts(const Calls& of) noexcept
      : calls(of),
        decoder(of.nvjpegDecoderDestroy),
        state(of.nvjpegJpegStateDestroy),
        pinned(of.nvjpegBufferPinnedDestroy),
        memory(of.nvjpegBufferDeviceDestroy),
        bits(of.nvjpegJpegStreamDestroy),
        params(of.nvjpegDecodeParamsDestroy) {}

  bool make(Handle handle) noexcept {
    return succeeded(calls.nvjpegDecoderCreate(handle, k_hybrid, decoder.to_make())) &&
           succeeded(calls.nvjpegDecoderStateCreate(handle, decoder.get(), state.to_make())) &&
           succeeded(calls.nvjpegBufferPinnedCreate(handle, nullptr, pinned.to_make())) &&
           succeeded(calls.nvjpegJpegStreamCreate(handle, bits.to_make())) &&
           succeeded(calls.nvjpegDecodeParamsCreate(handle, params.to_make())) &&
           succeeded(calls.nvjpegStateAttachPinnedBuffer(state.get(), pinned.get()));
  }
  /// Its memory is that of one image: what has none is attached anew.
  bool attach_memory(Handle handle) noexcept {
    memory.drop();
    return succeeded(calls.nvjpegBufferDeviceCreateV2(handle, scratch.allocator(), memory.to_make())) &&
           succeeded(calls.nvjpegStateAttachDeviceBuffer(state.get(), memory.get()));
  }
  bool read(Handle handle, const NvjpegFile& file) noexcept;
  Status write(Handle handle, Image& to, cudaStream_t stream) noexcept {
    const Status status =
        calls.nvjpegDecodeJpegTransferToDevice(handle, decoder.get(), state.get(), bits.get(), stream);
    return status != k_success ? status : calls.nvjpegDecodeJpegDevice(handle, decoder.get(), state.get(), &to, stream);
  }

  const Calls& calls;
  Scratch scratch;
  Owned<Decoder> decoder;
  Owned<State> state;
  Owned<PinnedBuffer> pinned;
  Owned<DeviceBuffer> memory;
  Owned<Bitstream> bits;
  Owned<Params> params;
};

bool NvjpegDecoder::Parts::read(Handle handle, const NvjpegFile& file) noexcept {
  const OutputFormat format = file.channels == 1 ? k_luma : k_rgb_interleaved;
  unsigned width = 0, height = 0;
  int is_not_supported = 0;
  return attach_memory(handle) &&
         succeeded(calls.nvjpegJpegStreamParse(handle, file.bytes.data(), file.bytes.size(), 0, 0, bits.get())) &&
         succeeded(calls.nvjpegJpegStreamGetFrameDimensions(bits.get(), &width, &height)) && width == file.width &&
         height == file.height && succeeded(calls.nvjpegDecodeParamsSetOutputFormat(params.get(), format)) &&
         succeeded(calls.nvjpegDecoderJpegSupported(decoder.get(), bits.get(), params.get(), &is_not_supported)) &&
         is_not_supported == 0 &&
         succeeded(calls.nvjpegDecodeJpegHost(handle, decoder.get(), state.get(), params.get(), bits.get()));
}

NvjpegDecoder::NvjpegDecoder(std::shared_ptr<const NvjpegHandle> handle) noexcept : handle_(std::move(handle)) {}

NvjpegDecoder::~NvjpegDecoder() {
  drop_parts();
}

void NvjpegDecoder::drop_parts() noexcept {
  largest_ = 0;
  spoiled_ = false;
  if (parts_ == nullptr)
    return;
  try {
    const cuda::DeviceScope scope(handle_->made_->gpu);
    parts_.reset();
  } catch (const CudaError&) {  // the GPU is lost
    parts_.reset();
  }
}

bool NvjpegDecoder::read(const NvjpegFile& file) noexcept {
  try {
    const NvjpegHandle::Made& made = *handle_->made_;
    const cuda::DeviceScope scope(made.gpu);
    const std::int64_t pixels = file.height * file.width;
    if (spoiled_ || (largest_ > k_large && pixels < largest_ / 4))
      drop_parts();
    if (parts_ == nullptr) {
      auto parts = std::make_unique<Parts>(made.calls);
      if (!parts->make(made.handle.get()))
        return false;
      parts_ = std::move(parts);
    }
    largest_ = std::max(largest_, pixels);
    file_ = file;
    if (parts_->read(made.handle.get(), file))
      return true;
  } catch (const std::exception&) {
  }
  drop_parts();  // whatever a damaged file has left in them
  return false;
}

bool NvjpegDecoder::write(const Queue& queue, std::uint8_t* to) {
  const cudaStream_t stream = stream_of(queue);
  const auto row = static_cast<std::size_t>(file_.width * file_.channels);
  Image image{.channel = {to, nullptr, nullptr, nullptr}, .pitch = {row, 0, 0, 0}};
  Scratch& scratch = parts_->scratch;
  scratch.begin(queue);
  const Status status = parts_->write(handle_->made_->handle.get(), image, stream);
  parts_->memory.drop();
  scratch.end();
  if (succeeded(status)) [[likely]]
    return true;
  spoiled_ = true;  // what it has may be in use by what was enqueued: the next image drops it
  if (scratch.failure() != nullptr)
    std::rethrow_exception(scratch.failure());
  if (status == k_bad_jpeg || status == k_jpeg_not_supported)
    return false;
  throw CudaError(message("nvJPEG: decoding failed with status ", static_cast<int>(status)), status);
}

void nvjpeg_copy_pixels(const Queue& queue, std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  cuda::cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(queue)), "cudaMemcpyAsync");
}

}  // namespace sluice::detail
