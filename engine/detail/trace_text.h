#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include <sluice/engine/trace.h>

namespace sluice::detail {

/// `text` in quotes, whatever bytes it holds: what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);
/// `text` in quotes for Graphviz; a line feed starts a new centred line.
std::string dot_string(std::string_view text);
/// `text` for an XML element or attribute; control characters become blanks.
std::string xml_text(std::string_view text);
/// Nanoseconds as microseconds with three digits, exactly.
std::string microseconds(std::int64_t nanoseconds);
/// "trace.cpp:12", without the folders.
std::string short_site(const SourceLocation& site);
const char* name_of(Priority priority) noexcept;
const char* name_of(AccessMode mode) noexcept;

/// Opens, writes, and throws FileError if any of it failed.
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

}  // namespace sluice::detail
