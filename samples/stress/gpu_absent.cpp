// A build without CUDA.
#include <sluice/engine/error.h>

#include "samples/stress/gpu.h"

namespace samples::stress {

namespace {

[[noreturn]] void refuse() {
  throw sluice::DeviceError("stress: this build is without CUDA");
}

}  // namespace

Memory Memory::on_gpu(int, std::size_t) {
  refuse();
}
Memory Memory::pinned(std::size_t) {
  refuse();
}
void copy_and_wait(void*, const void*, std::size_t) {
  refuse();
}
void enqueue_copy(void*, void*, const void*, std::size_t) {
  refuse();
}
void enqueue_work(void*, const Work&) {
  refuse();
}
ForeignStream::ForeignStream(int gpu) : gpu_(gpu) {
  refuse();
}
ForeignStream::~ForeignStream() = default;
void ForeignStream::launch(const Work&) const {
  refuse();
}

}  // namespace samples::stress
