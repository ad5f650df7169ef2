#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace samples {

/// Columns of the terminal that stdout is, asked anew at each call, so that it follows the window; 0 if stdout is no
/// terminal. Where the terminal does not know, $COLUMNS does, or else 80.
int terminal_width();

/// Columns that a line may fill: one less than the terminal's, since some wrap when the last one is filled; 0 (no
/// limit) if stdout is no terminal.
std::size_t line_room();

/// A piece of a line that may have to give way.
struct Part {
  int rank;  // 0 is kept longest
  std::string text;
  std::string shorter = {};  // what to put where the text does not fit; "" = nothing
};

/// The parts that fit into `width` columns, in their order, two spaces between them: higher ranks give way first.
std::string fit(const std::vector<Part>& parts, std::size_t width);
/// `text` cut at spaces into lines of `width` columns at most (0: no limit); later lines begin with `indent` spaces.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent = 2);
/// Prints, at once. What cannot be printed (a closed pipe, a full disk) is lost; nothing is thrown: parameters that
/// are still to be saved are worth more.
void put(const std::string& text);
/// Prints lines on stderr, likewise; on a terminal wrapped to its width.
void complain(const std::string& text);
/// Prints a line, on a terminal wrapped to its width.
void say(const std::string& text);

/// "0:07", "12:34", "1:02:03".
std::string clock_text(double seconds);

}  // namespace samples
