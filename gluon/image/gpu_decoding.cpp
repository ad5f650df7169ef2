#include <sluice/gluon/image/detail/gpu_decoding.h>

#if defined(SLUICE_CUDA) && defined(SLUICE_JPEG)

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/image/detail/decoder.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/library/nvjpeg.h>
#include <sluice/operator/walk/walk.h>

namespace sluice::image::detail {

namespace {

using sluice::detail::EngineAccess;
using sluice::detail::NvjpegDecoder;
using sluice::detail::NvjpegHandle;

/// A decoder, which images use one after the other: each writes `turn` with its part on the CPU and reads it with that
/// on the GPU. Between images there is no Var, which would keep the engine that keeps this.
struct SharedDecoder {
  explicit SharedDecoder(std::shared_ptr<const NvjpegHandle> handle) noexcept : decoder(std::move(handle)) {}

  NvjpegDecoder decoder;
  int users = 0;          // images whose tasks have not ended
  bool is_taken = false;  // one of them has not pushed both of its tasks: another's must not come between them
  Var turn = {};          // while there are any
  PositionSet last = {};  // where the GPU works on the last one
};

/// The decoders of one GPU.
class Decoders {
 public:
  Decoders(std::shared_ptr<const NvjpegHandle> handle, std::size_t most) : handle_(std::move(handle)), most_(most) {}

  /// One that is idle, or a new one, or if there are enough the one that fewest use.
  SharedDecoder& enter(Engine& engine);
  /// Both tasks of the image that entered are pushed, or will not be.
  void let_others_in(SharedDecoder& used) noexcept {
    const std::lock_guard hold(mutex_);
    used.is_taken = false;
  }
  void leave(SharedDecoder& used) noexcept;

 private:
  SharedDecoder& choose(Engine& engine);

  const std::shared_ptr<const NvjpegHandle> handle_;
  const std::size_t most_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<SharedDecoder>> all_;
};

SharedDecoder& Decoders::choose(Engine& engine) {
  SharedDecoder *idle = nullptr, *shared = nullptr;
  for (const auto& one : all_) {
    if (one->users == 0) {
      idle = one.get();
      if (EngineAccess::passed(engine, one->last))
        return *idle;
    } else if (!one->is_taken && (shared == nullptr || one->users < shared->users)) {
      shared = one.get();
    }
  }
  // What the GPU still works on is waited for by a task, which a new decoder's need not.
  if (all_.size() >= most_ && (idle != nullptr || shared != nullptr))
    return idle != nullptr ? *idle : *shared;
  all_.push_back(std::make_unique<SharedDecoder>(handle_));
  return *all_.back();
}

SharedDecoder& Decoders::enter(Engine& engine) {
  std::unique_lock hold(mutex_);
  SharedDecoder& chosen = choose(engine);
  chosen.is_taken = true;
  if (++chosen.users > 1)
    return chosen;
  hold.unlock();  // no lock is held where the engine is called; nobody else chooses what is taken
  try {
    Var turn = engine.new_var({.pending = &chosen.last});
    hold.lock();
    chosen.turn = std::move(turn);
  } catch (...) {
    let_others_in(chosen);
    leave(chosen);
    throw;
  }
  return chosen;
}

void Decoders::leave(SharedDecoder& used) noexcept {
  Var dropped;  // outside the lock
  const std::lock_guard hold(mutex_);
  if (--used.users == 0)
    std::swap(dropped, used.turn);
}

/// Of an engine, by GPU.
class GpuDecoders {
 public:
  explicit GpuDecoders(Engine&) {}

  /// Null where the GPU does not decode.
  Decoders* of(Engine& engine, Device gpu) {
    const std::lock_guard hold(mutex_);
    const auto index = static_cast<std::size_t>(gpu.index);
    if (asked_.size() <= index) {
      asked_.resize(index + 1, false);
      made_.resize(index + 1);
    }
    if (!asked_[index]) {
      if (auto handle = NvjpegHandle::of(gpu))
        made_[index] = std::make_unique<Decoders>(std::move(handle), static_cast<std::size_t>(engine.workers()) + 2);
      asked_[index] = true;
    }
    return made_[index].get();
  }

 private:
  std::mutex mutex_;
  std::vector<bool> asked_;
  std::vector<std::unique_ptr<Decoders>> made_;
};

Decoders* decoders_of(Engine& engine, Device device) {
  if (!device.is_gpu() || device.index < 0 || device.index >= num_gpus())
    return nullptr;
  return engine.extension<GpuDecoders>().of(engine, device);
}

/// An image on its way, which its two tasks share. Goes with them.
class Passing {
 public:
  Passing(std::vector<std::uint8_t> bytes, const DecodeOptions& options, const std::string& name)
      : bytes_(std::move(bytes)), by_cpu_(decoder_of(bytes_, options, name)) {}
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;
  ~Passing() {
    if (used_ != nullptr)
      decoders_->leave(*used_);
  }

  const Decoder& header() const { return *by_cpu_; }
  std::vector<std::uint8_t> give_back() { return std::move(bytes_); }
  Var enter(Engine& engine, Decoders& decoders) {
    used_ = &decoders.enter(engine);
    decoders_ = &decoders;
    return used_->turn;
  }
  void let_others_in() noexcept { decoders_->let_others_in(*used_); }

  /// The CPU's part. Errors are the image's, not those of the turn.
  void read() noexcept;
  /// The GPU's part.
  void write(const Queue& queue, std::uint8_t* to);

 private:
  void decode_by_cpu() {
    pixels_.resize(static_cast<std::size_t>(by_cpu_->height * by_cpu_->width * by_cpu_->channels));
    by_cpu_->read(pixels_.data());
  }

  std::vector<std::uint8_t> bytes_;
  std::unique_ptr<Decoder> by_cpu_;
  Decoders* decoders_ = nullptr;
  SharedDecoder* used_ = nullptr;
  std::vector<std::uint8_t> pixels_;  // of what nvJPEG does not take
  std::exception_ptr failure_;
};

void Passing::read() noexcept {
  try {
    const Decoder& image = *by_cpu_;
    if (!is_whole_jpeg(bytes_) || !used_->decoder.read({bytes_, image.height, image.width, image.channels}))
      decode_by_cpu();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Passing::write(const Queue& queue, std::uint8_t* to) {
  if (failure_ != nullptr)
    std::rethrow_exception(failure_);
  if (pixels_.empty()) {
    used_->last.clear();
    used_->last.add(queue.position());
    if (used_->decoder.write(queue, to))
      return;
    decode_by_cpu();
  }
  sluice::detail::nvjpeg_copy_pixels(queue, to, pixels_.data(), pixels_.size());
}

NDArray push(const std::shared_ptr<Passing>& passing, Decoders& decoders, Device device, SourceLocation site) {
  Engine& engine = Engine::current();
  const Decoder& header = passing->header();
  NDArray image =
      empty({header.height, header.width, std::int64_t{header.channels}}, {.dtype = uint8, .device = device});
  const Var turn = passing->enter(engine, decoders);
  struct Entered {
    Passing& passing;
    ~Entered() { passing.let_others_in(); }
  } const entered{*passing};
  engine.push(
      {.name = "imdecode", .access = {out(turn)}}, [passing] { passing->read(); }, site);
  sluice::detail::Buffer* const buffer = image.object()->buffer;
  Task task{.name = "imdecode", .device = device, .access = {read(turn)}};
  task.access.push_back(out(buffer->var()));
  buffer->raise_version();
  auto* const to = reinterpret_cast<std::uint8_t*>(image.object()->data());
  engine.push(
      task, [passing, to](Queue queue) { passing->write(queue, to); }, site);
  return image;
}

// As turn() does on the CPU.
NDArray turned(const NDArray& lying, int orientation, SourceLocation site) {
  NDArray image = lies_on_side(orientation) ? lying.transpose({1, 0, 2}, site) : lying;
  constexpr std::array k_mirrored_down{false, false, false, true, true, false, false, true, true};
  constexpr std::array k_mirrored_right{false, false, true, true, false, false, true, true, false};
  if (k_mirrored_down[static_cast<std::size_t>(orientation)])
    image = flip(image, 0, site);
  if (k_mirrored_right[static_cast<std::size_t>(orientation)])
    image = flip(image, 1, site);
  return image.contiguous(site);
}

}  // namespace

NDArray decoded_on_gpu(
    std::vector<std::uint8_t>& encoded,
    const DecodeOptions& options,
    const std::string& name,
    Device device,
    SourceLocation site) {
  Decoders* const decoders = decoders_of(Engine::current(), device);
  if (decoders == nullptr)
    return {};
  const auto passing = std::make_shared<Passing>(std::move(encoded), options, name);
  if (!passing->header().suits_gpu) {
    encoded = passing->give_back();
    return {};
  }
  const int orientation = options.orient ? passing->header().orientation() : 1;
  const NDArray image = push(passing, *decoders, device, site);
  return orientation == 1 ? image : turned(image, orientation, site);
}

}  // namespace sluice::image::detail

namespace sluice::image {

bool decodes_on_gpu(Device device) {
  return detail::decoders_of(Engine::current(), device) != nullptr;
}

}  // namespace sluice::image

#else

namespace sluice::image {

NDArray detail::decoded_on_gpu(
    std::vector<std::uint8_t>&, const DecodeOptions&, const std::string&, Device, SourceLocation) {
  return {};
}

bool decodes_on_gpu(Device) {
  return false;
}

}  // namespace sluice::image

#endif
