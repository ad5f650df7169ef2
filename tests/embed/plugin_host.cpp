// Loads a shared object with an operator, and uses that by its name alone: plugin_host OBJECT.
#include <algorithm>
#include <dlfcn.h>
#include <iostream>

#include <sluice/sluice.h>

using namespace sluice;

int main(int argc, char** argv) {
  if (argc != 2 || find_operator("plugin_power") != nullptr || dlopen(argv[1], RTLD_NOW) == nullptr) {
    std::cerr << "plugin_host: " << (argc == 2 ? dlerror() : "OBJECT") << "\n";
    return 1;
  }
  const Operator* power = find_operator("plugin_power");
  const std::vector<const Operator*> all = operators();
  if (power == nullptr || std::find(all.begin(), all.end(), power) == all.end())
    return 2;
  NDArray x = array({1.0F, 2.0F, 3.0F});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = invoke_one(*power, {x}, parse_attributes(*power, "power=3"), SourceLocation::current());
  }
  y.backward();
  try {
    invoke_one(*power, {x}, parse_attributes(*power, "powre=3"), SourceLocation::current());
    return 3;
  } catch (const ValueError& error) {
    std::cout << "plugged: " << y.to_string() << " " << x.grad().to_string() << " " << error.message() << "\n";
  }
}
