#pragma once

// What headers of device code say to the host, for kernels that NVRTC compiles: declared, never used by them. It stands
// there for the headers of the host that they include (see embed.py).
#ifdef __CUDACC_RTC__

namespace sluice {

inline constexpr int k_max_ndim = 8;

namespace detail {
template <int K>
struct StridedPlan;
}

namespace cuda {
void cuda_check(int error, const char* call);
}

}  // namespace sluice

int cudaGetLastError();

#endif
