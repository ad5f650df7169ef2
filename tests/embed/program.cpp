// Somebody else's program: ten lines on the installed Sluice, the engine and arrays of it.
#include <iostream>

#include <sluice/sluice.h>

int main() {
  sluice::Engine& engine = sluice::Engine::current();
  sluice::Var x = engine.new_var();
  int value = 0;
  engine.push({.name = "set", .access = {write(x)}}, [&value] { value = 3; });
  engine.wait(x);
  sluice::NDArray a = sluice::arange(0, value);
  std::cout << "embedded: " << (a + a).to_string() << "\n";
}
