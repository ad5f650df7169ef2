#!/usr/bin/env python3
"""Adds reductions to copies of the tree's files, as somebody would who adds them, and says how much that was.

add_reduction.py ROOT HEADER FILE=LINES...: FILE, below ROOT, is copied to sluice/FILE beside HEADER, with the lines of
the file LINES at its end, in a header before its last namespace ends. What is compiled with that folder first among its
include folders has these reductions too. HEADER then lists the files that were touched, and by how many lines.
"""
import pathlib
import sys


def added(name, text, lines):
    at = len(text) if name.endswith(".def") else text.rindex("}  // namespace")
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
    header.write_text(
        "#pragma once\n\nstruct Touched {\n  const char* file;\n  int lines;\n};\n"
        f"inline constexpr Touched k_touched[] = {{\n{listed}}};\n")


if __name__ == "__main__":
    main()
