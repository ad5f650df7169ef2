#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/bench/support/metg.h"

// What the peers' programs share: the flags of bench_metg that make sense to them, and its lines.
namespace peer {

struct Options {
  metg::Settings settings;
  std::string filter;
};

[[noreturn]] inline void refuse(const char* what) {
  std::fprintf(stderr, "unknown or incomplete flag '%s'\n", what);
  std::fprintf(stderr, "flags: --threads N --width N --repeats N --filter TEXT --smoke\n");
  std::exit(2);
}

inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--smoke") {
      options.settings.smoke = true;
      continue;
    }
    if (i + 1 == argc)
      refuse(argv[i]);
    const char* value = argv[++i];
    if (flag == "--threads")
      options.settings.threads = std::atoi(value);
    else if (flag == "--width")
      options.settings.width = std::atoi(value);
    else if (flag == "--repeats")
      options.settings.repeats = std::atoi(value);
    else if (flag == "--filter")
      options.filter = value;
    else
      refuse(argv[i - 1]);
  }
  if (options.settings.threads <= 0)
    options.settings.threads = static_cast<int>(std::thread::hardware_concurrency());
  options.settings.width = metg::usable_width(options.settings.width, options.settings.threads);
  return options;
}

/// Measures one system on all patterns; the exit code.
inline int run(const Options& options, const std::string& peer, metg::System& system) {
  const std::string variant = peer + "-" + std::to_string(options.settings.threads) + "t";
  int code = 0;
  for (const char* name : task_grid::k_names) {
    if ((std::string(name) + " " + variant).find(options.filter) == std::string::npos)
      continue;
    auto add = [&](const std::string& workload, const std::string& metric, double value, const std::string& unit) {
      std::printf(
          "%-16s %-28s %-18s %12.4f %s\n", workload.c_str(), variant.c_str(), metric.c_str(), value, unit.c_str());
      std::fflush(stdout);
    };
    if (!metg::sweep(options.settings, name, system, add)) {
      std::fprintf(stderr, "WRONG RESULT: %s %s\n", variant.c_str(), name);
      code = 1;
    }
  }
  return code;
}

}  // namespace peer
