// A stand-in until programs can be read: program_of() knows those that attributes_of() was given.
#include <map>
#include <memory>
#include <mutex>

#include <sluice/engine/error.h>
#include <sluice/operator/fused/program.h>
#include <sluice/operator/operator.h>

namespace sluice::fused {

namespace {

struct Known {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const Program>> programs;
};
Known& known() {
  static auto* const all = new Known;
  return *all;
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text;
  for (const DType input : program.inputs)
    text += message(text.empty() ? "" : " ", input);
  std::size_t value = program.inputs.size();
  for (const Call& call : program.calls) {
    text += message("; %", value++, " = ", call.op->name, "(");
    for (std::size_t i = 0; i < call.operands.size(); ++i)
      text += message(i == 0 ? "%" : ", %", call.operands[i]);
    const std::string attributes = to_string(call.attributes);
    text += (attributes.empty() ? ") " : ") {" + attributes + "} ") + message(call.dtype);
  }
  text += "; ->";
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    text += message(i == 0 ? " %" : ", %", program.outputs[i]);
  return text;
}

const Program& program_of(const Attributes& attributes) {
  const std::string& text = attributes.as<FusedAttributes>().program;
  const std::lock_guard hold(known().mutex);
  const auto at = known().programs.find(text);
  require<ValueError>(at != known().programs.end(), [&] { return message("fused: unknown program ", text); });
  return *at->second;
}

Attributes attributes_of(const Program& program) {
  FusedAttributes attributes{to_text(program)};
  const std::lock_guard hold(known().mutex);
  auto& kept = known().programs[attributes.program];
  if (kept == nullptr)
    kept = std::make_unique<const Program>(program);
  return Attributes::of(attributes);
}

}  // namespace sluice::fused
