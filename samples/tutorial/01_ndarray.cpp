// Arrays: made, computed with, looked into. Nothing waits until a value is read.
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;

int main() {
  const NDArray x = arange(1, 7).reshape({2, 3});
  std::cout << "x " << x.shape() << "\n" << x << "\n";

  // Shapes that differ are stretched as in NumPy: the row goes along with both rows of x.
  const NDArray row = array({10.0f, 20.0f, 30.0f});
  std::cout << "x * 2 + row\n" << x * 2 + row << "\n";

  // Functions have NumPy's names; axes may be counted from the end.
  std::cout << "sum " << sum(x).item<float>() << ", means of rows " << mean(x, {-1}) << "\n";
  std::cout << "x times its transpose\n" << matmul(x, x.T()) << "\n";

  // Subscripts are views: what is written through one is seen in the array that it is of.
  NDArray y = zeros({3, 4});
  y[1].assign(5);             // row 1
  y[{{}, {1, 3}}].assign(7);  // columns 1 and 2 of all rows
  std::cout << "y\n" << y << "\n";

  // Types mix as in PyTorch: integers and float32 give float32.
  const NDArray counts = array({1, 2, 3});
  std::cout << counts.dtype() << " + " << row.dtype() << " gives " << (counts + row).dtype() << "\n";

  // A mistake is an exception that names the operator and the values.
  try {
    std::cout << x + zeros({4}) << "\n";
  } catch (const ShapeError& error) {
    std::cout << error.what() << "\n";
  }
}
