#pragma once

#include <string>

#include <sluice/engine/device.h>

// Ways to bring kernels of one's own, a file each. Each prints what came of it and throws sluice::Error where that is
// wrong. Those for GPUs alone say so where there is none.
namespace samples {

/// CUDA source compiled while the program runs adds two vectors.
void vector_add();
/// An operator with a gradient from a shared object, which is loaded now.
void doubling(const std::string& object, sluice::Device device);
/// An operator of the program itself, with kernels for CPU and GPU: a 2-D convolution.
void own_convolution(sluice::Device device);
/// A kernel that was written for CUDA's legacy default stream, in order with tasks around it.
void legacy_stream();  // of builds without CUDA: legacy_stream_absent.cpp

}  // namespace samples
