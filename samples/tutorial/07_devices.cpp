// Devices: an array lies on one, and is computed with there. Without a GPU this program stays on the CPU.
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;

int main() {
  const Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::cout << "computing on a " << (device.is_gpu() ? "GPU" : "CPU") << "\n";

  // Made there, or brought there; reading a value brings it back.
  const NDArray made = ones({2, 3}, {.device = device});
  const NDArray brought = arange(0, 6).reshape({2, 3}).to(device);
  std::cout << made + brought << "\n";

  // Numbers go along with any array, arrays of two devices do not: that would be a copy that nobody sees.
  gluon::nn::Dense layer(4);
  layer.initialize(gluon::init::Xavier(), device);
  std::cout << "output " << layer(brought).shape() << "\n";

  // A network moves with all it has. Here it goes to where it is.
  layer.to(device);
  std::cout << "parameters on that device: " << (layer.own_parameter("weight").data().device() == device ? "yes" : "no")
            << "\n";

  // No stream, no event: copies and kernels are tasks that wait for what they need, and only for that.
  NDArray sums = zeros({2}, {.device = device});
  for (int i = 0; i < 100; ++i)
    sums += sum(made * i, {1});
  std::cout << "sums " << sums << "\n";
}
