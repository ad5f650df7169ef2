#include <algorithm>
#include <ostream>

#include <sluice/gluon/detail/block_members.h>

namespace sluice::gluon {

AttributeValue OptionNotes::Note::now() const {
  return weight == nullptr ? value : AttributeValue(weight->shape()[axis] * times);
}

OptionNotes& OptionNotes::put(const char* name, AttributeValue value, bool is_shown) {
  notes_.push_back({.name = name, .value = std::move(value), .is_shown = is_shown});
  return *this;
}

OptionNotes& OptionNotes::sizes(
    const char* in_name,
    const Parameter& weight,
    std::size_t axis,
    const char* out_name,
    std::int64_t out,
    std::int64_t times) {
  size(in_name, weight, axis);
  notes_.back().times = times;
  notes_.back().points = true;
  return put(out_name, out, true);
}

OptionNotes& OptionNotes::size(const char* in_name, const Parameter& weight, std::size_t axis) {
  notes_.push_back({.name = in_name, .value = {}, .is_shown = true, .weight = &weight, .axis = axis});
  return *this;
}

OptionNotes& OptionNotes::join(OptionNotes more) {
  for (Note& note : more.notes_) {
    const auto known = std::find_if(
        notes_.begin(), notes_.end(), [&](const Note& one) { return std::string_view(one.name) == note.name; });
    if (known == notes_.end())
      notes_.push_back(std::move(note));
    else
      *known = std::move(note);
  }
  return *this;
}

std::vector<NamedValue> OptionNotes::values() const {
  std::vector<NamedValue> all;
  for (const Note& note : notes_)
    all.push_back({note.name, note.now()});
  return all;
}

namespace {
// As Gluon prints it, without quotation marks; what the first input will say is None.
std::string short_text(const AttributeValue& value, bool is_size) {
  if (is_size && value == AttributeValue(std::int64_t{0}))
    return "None";
  const auto* const text = std::get_if<std::string>(&value);
  return text == nullptr ? to_string(value) : *text;
}
}  // namespace

std::string OptionNotes::text() const {
  std::string all;
  for (std::size_t i = 0; i < notes_.size(); ++i) {
    const Note& note = notes_[i];
    if (!note.is_shown)
      continue;
    all += all.empty() ? "" : ", ";
    const std::string value = short_text(note.now(), note.weight != nullptr);
    if (note.points)
      all += value + " -> " + short_text(notes_[++i].now(), false);
    else
      all += std::string(note.name) + '=' + value;
  }
  return all;
}

void Block::note_options(OptionNotes notes) {
  members().options.join(std::move(notes));
}

std::string Block::type_name() const {
  return detail::type_name(typeid(*this));
}

std::vector<NamedValue> Block::options() const {
  return members().options.values();
}

std::string Block::options_text() const {
  return members().options.text();
}

namespace {
void append(std::string& text, const Block& block, std::size_t depth) {
  const std::string indent(2 * depth, ' ');
  const std::string options = block.options_text();
  text += block.type_name() + '(' + options;
  for (std::size_t i = 0; i < block.num_children(); ++i) {
    const Child<> child = block.child_at(i);
    text += (i == 0 && !options.empty() ? ",\n" : "\n") + indent + "  (" + child.name() + "): ";
    append(text, *child, depth + 1);
  }
  text += block.num_children() == 0 ? ")" : '\n' + indent + ')';
}
}  // namespace

std::string to_string(const Block& block) {
  std::string text;
  append(text, block, 0);
  return text;
}

std::ostream& operator<<(std::ostream& out, const Block& block) {
  return out << to_string(block);
}

}  // namespace sluice::gluon
