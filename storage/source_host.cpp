#include <cstdlib>

#include <sluice/storage/detail/source.h>

namespace sluice::detail {
namespace {

constexpr std::size_t k_alignment = 64;  // a cache line, and the widest vector register

class HostSource final : public MemorySource {
 public:
  HostSource() noexcept : MemorySource(cpu(), MemoryKind::host, k_alignment) {}
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(k_alignment, bytes); }
  void deallocate(void* data) noexcept override { std::free(data); }
};

}  // namespace

std::unique_ptr<MemorySource> make_host_source() {
  return std::make_unique<HostSource>();
}

}  // namespace sluice::detail
