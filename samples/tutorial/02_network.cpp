// Networks: layers, a row of them, and a block of one's own.
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;
namespace nn = gluon::nn;

// Two layers and a way past them. What a block is made of it registers as children; forward says what it computes.
class Shortcut : public gluon::Block {
 public:
  explicit Shortcut(std::int64_t width)
      : first_(child("first", nn::Dense(width, {.activation = "relu"}))), second_(child("second", nn::Dense(width))) {}

 protected:
  NDArray forward(const NDArray& x) const override { return x + second_(first_(x)); }

 private:
  gluon::Child<nn::Dense> first_, second_;
};

int main() {
  nn::Sequential net;
  net.add(nn::Dense(16, {.activation = "relu"}), Shortcut(16), nn::Dense(3));

  // How many inputs the first layer has is found when it meets the first batch.
  random::seed(1);
  net.initialize(gluon::init::Xavier());
  const NDArray x = random::uniform(0, 1, {5, 8});
  std::cout << "output " << net(x).shape() << "\n";

  // Parameters have names that say where they are.
  for (const auto& [name, parameter] : net.collect_params())
    std::cout << name << " " << parameter.shape() << "\n";
  std::cout << "those of the shortcut: " << net.collect_params("1\\..*").size() << "\n";
}
