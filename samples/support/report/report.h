#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "samples/support/evaluation.h"
#include "samples/support/history.h"
#include "samples/support/png_image.h"

namespace samples {

/// What a page about a run is made of.
struct Report {
  std::string title;
  std::string note = {};  // a sentence above all else: what is missing, and why
  std::vector<std::pair<std::string, std::string>> settings = {};  // names and values
  double seconds = 0;
  std::int64_t steps = 0;
  History history = {};
  const Evaluation* evaluation = nullptr;         // of at least one image; null: there is none
  std::vector<std::string> classes = {};          // names of the classes, at least as many as there are
  std::function<Image(std::int64_t)> image = {};  // one of the evaluated images
};

/// The page: one HTML file that needs nothing else, in light and dark, with curves of loss and accuracy, the confusion
/// matrix, the scores of the classes, the 25 most confident mistakes as images, settings and figures.
std::string report_page(const Report& report);

namespace report_parts {

/// Images with what they are and what they were taken for.
std::string mistakes(const Report& report);

}  // namespace report_parts
}  // namespace samples
