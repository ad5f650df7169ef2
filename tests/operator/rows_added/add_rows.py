#!/usr/bin/env python3
"""Adds rows to copies of the tree's tables, as somebody would who adds operators, and says how much that was.

add_rows.py ROOT HEADER TABLE=ROWS...: TABLE, below ROOT, is copied to sluice/TABLE beside HEADER, the lines of the file
ROWS behind its last row; what is compiled with that folder first among its include folders has these operators too.
HEADER then lists the files that were touched, and by how many lines.
"""
import pathlib
import re
import sys


def added(text, rows):
    """The table with these lines behind its last row, which ends with the sentence that describes it."""
    end = [match.end() for match in re.finditer(r'"\)\n', text)][-1]
    return text[:end] + rows + text[end:]


def main():
    root, header = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    listed = ""
    for pair in sys.argv[3:]:
        table, rows = pair.split("=")
        rows = pathlib.Path(rows).read_text()
        copy = header.parent / "sluice" / table
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(added((root / table).read_text(), rows))
        listed += f'    {{"{table}", {len(rows.splitlines())}}},\n'
    header.write_text(
        "#pragma once\n\nstruct Touched {\n  const char* file;\n  int lines;\n};\n"
        f"inline constexpr Touched k_touched[] = {{\n{listed}}};\n")


if __name__ == "__main__":
    main()
