// Gradients: what is recorded can be walked back.
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;

int main() {
  NDArray x = array({1.0f, 2.0f, 3.0f});
  x.attach_grad();
  NDArray y;
  {
    autograd::RecordScope record;
    // C++ decides while it runs: the tape holds what was computed, not what was written.
    y = sum(x).item<float>() > 5 ? x * x : -x;
  }
  y.backward();  // the head gradient is ones
  std::cout << "d(x * x) = " << x.grad() << "\n";

  // Without a variable: the gradient as an array, and with create_graph the gradient of that.
  autograd::RecordScope record;
  const NDArray cubes = sum(x * x * x);
  const NDArray first = autograd::grad(cubes, x, {.create_graph = true});
  const NDArray second = autograd::grad(sum(first), x);
  std::cout << "3 x^2 = " << first << ", 6 x = " << second << "\n";

  {
    autograd::PauseScope pause;  // what is looked at on the way need not be kept
    std::cout << "largest " << max(x).item<float>() << "\n";
  }
}
