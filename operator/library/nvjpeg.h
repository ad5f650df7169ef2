#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <sluice/engine/device.h>
#include <sluice/engine/queue.h>

// nvJPEG, which decodes JPEG on a GPU. Loads at first use; where it is missing the CPU decodes.
namespace sluice::detail {

/// The library's handle of one GPU, for any thread.
class NvjpegHandle {
 public:
  /// Null where the library is missing or does not serve the GPU.
  static std::shared_ptr<const NvjpegHandle> of(Device gpu) noexcept;
  ~NvjpegHandle();
  NvjpegHandle(const NvjpegHandle&) = delete;
  NvjpegHandle& operator=(const NvjpegHandle&) = delete;

 private:
  friend class NvjpegDecoder;
  struct Made;
  explicit NvjpegHandle(std::unique_ptr<Made> made) noexcept;
  std::unique_ptr<Made> made_;
};

/// A file as nvJPEG is given it, and what is to come of it.
struct NvjpegFile {
  std::span<const std::uint8_t> bytes;
  std::int64_t height = 0, width = 0;
  int channels = 3;  // 1 or 3
};

/// Decodes one image at a time, in two parts. What it needs for that is made at first use and kept for the next image;
/// memory of the GPU comes from its pool and goes back with each.
class NvjpegDecoder {
 public:
  explicit NvjpegDecoder(std::shared_ptr<const NvjpegHandle> handle) noexcept;
  ~NvjpegDecoder();
  NvjpegDecoder(const NvjpegDecoder&) = delete;
  NvjpegDecoder& operator=(const NvjpegDecoder&) = delete;

  /// The CPU's part, on any thread, once the GPU has passed the part of the image before. False where nvJPEG does not
  /// take the file or lacks something. The bytes must stay until write() has returned.
  bool read(const NvjpegFile& file) noexcept;
  /// The GPU's part, in a task's body: enqueues what writes (height, width, channels) to `to`. False where nvJPEG finds
  /// now that it does not take the file. Throws OutOfMemory and CudaError.
  bool write(const Queue& queue, std::uint8_t* to);

 private:
  struct Parts;
  void drop_parts() noexcept;

  const std::shared_ptr<const NvjpegHandle> handle_;
  std::unique_ptr<Parts> parts_;
  NvjpegFile file_ = {};
  std::int64_t largest_ = 0;  // pixels of what its memory was made for
  bool spoiled_ = false;
};

/// Enqueues a copy from the host's memory, which may go when this returns.
void nvjpeg_copy_pixels(const Queue& queue, std::uint8_t* to, const std::uint8_t* from, std::size_t bytes);

}  // namespace sluice::detail
