// Somebody else's program that uses the engine alone. Prints how many KiB it has resident, then what it has loaded.
#include <fstream>
#include <iostream>
#include <set>
#include <string>

#include <sluice/engine/api.h>

int main() {
  sluice::Engine engine;
  const sluice::Var x = engine.new_var(), y = engine.new_var();
  long sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    engine.push({.name = "add", .access = {write(x)}}, [&sum, i] { sum += i; });
    engine.push({.name = "look", .access = {read(x), write(y)}}, [] {});
  }
  engine.wait(y);
  if (sum != 49'995'000 || sluice::num_gpus() < 0)
    return 1;

  std::string word;
  for (std::ifstream status("/proc/self/status"); status >> word;) {
    if (word == "VmHWM:" && status >> word)
      std::cout << word << "\n";
  }
  std::set<std::string> libraries;
  for (std::ifstream maps("/proc/self/maps"); maps >> word;) {
    if (word.find(".so") != std::string::npos)
      libraries.insert(word);
  }
  for (const std::string& library : libraries)
    std::cout << library << "\n";
}
