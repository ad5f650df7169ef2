#!/usr/bin/env python3
"""Adds lines to copies of the tree's files, as somebody would who adds operators, and says how much that was.

add_rows.py ROOT HEADER FILE=LINES...: FILE, below ROOT, is copied to sluice/FILE beside HEADER with the lines of the file
LINES: in a table behind its last row, in a header before its last namespace ends. What is compiled with that folder first
among its include folders has these operators too. HEADER then lists the files that were touched, and by how many lines.
"""
import pathlib
import re
import sys

HEADER = """#pragma once

#include <string_view>

struct Touched {
  std::string_view file;
  int lines;
};
inline constexpr Touched k_touched[] = {
LISTED};

inline int lines_in(std::string_view file) {
  int lines = 0;
  for (const Touched& touched : k_touched)
    lines += touched.file == file ? touched.lines : 0;
  return lines;
}
"""

def added(name, text, lines):
    """The text with these lines; the last row of a table ends with the sentence that describes it."""
    at = [match.end() for match in re.finditer(r'"\)\n', text)][-1] if name.endswith(".def") else text.rindex("}  // namespace")
    return text[:at] + lines + text[at:]


def main():
    root, header = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    listed = ""
    for pair in sys.argv[3:]:
        name, source = pair.split("=")
        lines = pathlib.Path(source).read_text()
        copy = header.parent / "sluice" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(added(name, (root / name).read_text(), lines))
        listed += f'    {{"{name}", {len(lines.splitlines())}}},\n'
    header.write_text(HEADER.replace("LISTED", listed))


if __name__ == "__main__":
    main()
