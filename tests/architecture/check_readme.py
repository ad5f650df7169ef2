#!/usr/bin/env python3
"""The C++ examples of README.md compile, as users compile them and without a warning where the flags ask for that, and the
files that README links to are there: check_readme.py ROOT COMPILER [flags].
"""
import pathlib
import re
import subprocess
import sys

import checker


def examples(text):
    """(line, source) of each ```cpp block."""
    for match in re.finditer(r"^```cpp\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 2, match.group(1)


def missing_links(root, text):
    for match in re.finditer(r"\]\((?!https?:)([^)#]+)", text):
        if not (pathlib.Path(root) / match.group(1)).is_file():
            yield f"README.md:{text.count(chr(10), 0, match.start()) + 1}: {match.group(1)} does not exist"


def check_with(root, compiler):
    text = checker.read(root, "README.md")
    found, number = list(missing_links(root, text)), 0
    for line, source in examples(text):
        number += 1
        run = subprocess.run([*compiler, "-S", "-o", "/dev/null", "-x", "c++", "-"], input=source, capture_output=True, text=True)
        if run.returncode != 0:
            found.append(f"README.md:{line}: {run.stderr}")
    return found if number > 0 else [*found, "README.md has no C++ example"]


STRICT = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"]
PLANTS = [
    ("an example that does not compile", {"README.md": "```cpp\nint main() { return nothing; }\n```\n"}, "README.md:2"),
    ("an example with a warning", {"README.md": "```cpp\nstruct A { int a, b; };\nA x{.a = 1};\n```\n"}, "README.md:2"),
    ("a picture that is not there", {"README.md": "![a](docs/a.svg)\n"}, "docs/a.svg does not exist"),
    ("no example", {"README.md": "Nothing here.\n"}, "no C++ example"),
]
CLEAN = {"README.md": "# A\n```cpp\n#include <vector>\nint main() {}\n```\n"}

if __name__ == "__main__":
    if len(sys.argv) > 2:
        offences = check_with(sys.argv[1], sys.argv[2:])
        print("\n".join([*offences, f"{len(offences)} offences"]))
        sys.exit(1 if offences else 0)
    if sys.argv[1:] != ["--self-test"]:
        sys.exit("usage: check_readme.py ROOT COMPILER [flags] | --self-test")
    checker.main(lambda root: check_with(root, ["c++", *STRICT]), PLANTS, CLEAN)
