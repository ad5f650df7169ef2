#pragma once

// nvJPEG for a simulated GPU: libjpeg decodes in the CPU's part, kernels of the other bring the pixels over. What is
// used out of order, by two threads or after its end is counted.
#include <map>
#include <string>

namespace device_sim {

struct NvjpegFigures {
  std::map<std::string, int> live = {};  // objects by kind: handle, decoder, state, ..
  int made_states = 0;
  int decoded = 0;  // images whose second part was enqueued
  int misuses = 0;  // page-locked memory used again before the GPU was done with it, objects used by two at a time, ..
};
NvjpegFigures nvjpeg_figures();

/// Whether the library is there, for engines that have not asked yet.
void set_nvjpeg_present(bool present);
/// The n-th call of that function from now (1: the next) gives that status and does nothing. "": none does.
void fail_nvjpeg(const std::string& function, int n, int status);

}  // namespace device_sim
