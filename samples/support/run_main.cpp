#include "samples/support/run_main.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

namespace samples {

int run_main(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return body();
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 1;
  }
}

}  // namespace samples
