#include "samples/support/training.h"

#include <cmath>
#include <future>
#include <optional>
#include <string>

#include <fmt/format.h>

#include <sluice/operator/matmul/precision.h>

#include "samples/support/images.h"
#include "samples/support/interrupt.h"
#include "samples/support/report/report.h"
#include "samples/support/run_main.h"
#include "samples/support/safe_file.h"
#include "samples/support/session.h"
#include "samples/support/summary.h"
#include "samples/support/terminal.h"

namespace samples {

using namespace sluice;

namespace {

// Better now than after an hour.
void check_outputs(const TrainingOptions& options) {
  if (!options.save.empty())
    check_target("--save", options.save);
  if (!options.export_to.empty()) {
    for (const char* suffix : {".json", ".npz"})
      check_target("--export", std::filesystem::path(options.export_to) += suffix);
  }
  if (!options.report.empty())
    check_folder("--report", options.report);
}

Image image_of(const gluon::data::vision::FashionMNIST& images, std::int64_t index) {
  const Shape shape = images.data_spec().shape;
  const auto* pixels = static_cast<const std::uint8_t*>(images.data_row(index));
  return {.height = shape[0], .width = shape[1], .channels = 1, .pixels = {pixels, pixels + shape[0] * shape[1]}};
}

// Of what there is; `note`: why that is not all. False if it could not be written; that is said.
bool write_report(
    const TrainingOptions& options, const Images& images, const Session& session, const std::string& note = "") {
  Report report{.title = options.model + " on Fashion-MNIST", .note = note};
  for (const auto& [flag, value] : options.settings())
    report.settings.emplace_back(flag.substr(2), value);
  report.settings.emplace_back("device", to_string(options.device));
  if (images.training)
    report.settings.emplace_back("training images", fmt::format("{}", images.training->size()));
  report.settings.emplace_back("test images", fmt::format("{}", images.testing.size()));
  report.seconds = session.seconds();
  report.steps = session.steps();
  report.history = session.history();
  report.evaluation = session.finished_evaluation();
  report.classes = images.classes;
  report.image = [&](std::int64_t index) { return image_of(images.testing, index); };
  const std::filesystem::path page = options.report / "index.html";
  try {
    write_text(page, report_page(report));
    say("report written to " + page.string());
    return true;
  } catch (const FileError& error) {
    complain("--report: " + error.message());
    return false;
  }
}

// After an interrupt.
std::string what_is_left(const TrainingOptions& options, const Session& session) {
  if (!session.last_saved().empty())
    return " (--resume " + session.last_saved().string() + " goes on from what was saved)";
  if (options.evaluate)
    return "";
  return options.save.empty() ? "; nothing was saved (--save FILE does)" : "; nothing was saved";
}

int finish(const TrainingOptions& options, const Images& images, Session& session) {
  bool good = options.evaluate || session.save();
  const bool whole = !interrupted() && session.evaluation().complete;
  if (whole)
    print_summary(session.evaluation(), images.classes);
  if (!options.report.empty())
    good = write_report(options, images, session, whole ? "" : "This run was interrupted.") && good;
  if (!whole) {
    say("interrupted" + what_is_left(options, session));
    return good ? interrupt_code() : 1;
  }
  good = session.export_network(images.classes) && good;
  const Evaluation& evaluation = session.evaluation();
  if (options.evaluate)
    say(fmt::format("test loss: {:.4f}", evaluation.loss));
  say(fmt::format("test accuracy: {:.4f}", evaluation.accuracy()));
  if (!std::isfinite(evaluation.loss)) {
    complain(fmt::format("the test loss is {}: these parameters are of no use", evaluation.loss));
    good = false;
  }
  return good ? 0 : 1;
}

// The learning rate falls over all epochs: with another number of them the epochs before had other rates.
void warn_of_other_rates(const TrainingOptions& options, const Checkpoint& resumed) {
  const std::string& before = resumed.settings.at("--epochs");
  if (options.final_rate == 1 || before == options.settings().at("--epochs"))
    return;
  say(fmt::format(
      "--epochs was {}, now it is {}: with --final-lr {} the learning rate goes on as if it had been so from the "
      "start, but the epochs before were trained with other rates",
      before,
      options.epochs,
      options.final_rate));
}

void run_training(const TrainingOptions& options, const Images& images, Session& session) {
  try {
    session.run();
  } catch (const std::exception& error) {
    if (!options.report.empty())
      write_report(options, images, session, std::string("This run ended with an error: ") + error.what());
    throw;
  }
}

// A GPU takes nearly as long to start as the files to read, so both are done at once.
void start_device(Engine& engine, Device device) {
  const EngineScope scope(engine);
  zeros({1}, {.device = device}).wait_to_read();
}

int train(TrainingOptions& options, const std::function<Model()>& make_model) {
  Engine engine({.workers = options.threads, .seed = options.seed});
  EngineScope scope(engine);
  auto started = std::async(std::launch::async, [&] { start_device(engine, options.device); });
  const Images images = open_images(options.data, !options.evaluate);
  started.get();
  std::optional<Checkpoint> resumed;
  if (!options.resume.empty()) {
    resumed = read_checkpoint(options.resume);
    options.adopt(resumed->settings, options.resume.string());
    warn_of_other_rates(options, *resumed);
  }
  set_float32_precision(options.precision);
  Session session(options, images, make_model(), resumed ? &*resumed : nullptr);
  resumed.reset();
  check_outputs(options);  // last, since it makes the folder of --report
  say(fmt::format(
      "{}{} test images, on {}",
      images.training ? fmt::format("{} training and ", images.training->size()) : "",
      images.testing.size(),
      to_string(options.device)));
  catch_interrupts();
  catch_lost_outputs();
  if (!options.evaluate)
    run_training(options, images, session);
  return finish(options, images, session);
}

}  // namespace

int train_main(
    CommandLine& command, int argc, char** argv, TrainingOptions& options, const std::function<Model()>& make_model) {
  options.add_to(command);
  return run_main(command, argc, argv, [&] { return train(options, make_model); });
}

}  // namespace samples
