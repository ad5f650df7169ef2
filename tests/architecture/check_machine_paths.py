#!/usr/bin/env python3
"""No path of the machine that a file was written on, and no address inside a private network, in any file."""
import re

import checker

# Written in pieces, so that this file does not accuse itself.
FOLDERS = ["/" + folder + "/" for folder in ("work", "root", "home", "Users")]
OTHERS = ["/tmp/" + "bash_jobs", "/tmp/" + "venv", "C:" + "\\\\Users"]
PATH = re.compile("(?<![\\w./-])(?:" + "|".join(re.escape(p) for p in FOLDERS) + ")\\w|" + "|".join(OTHERS))
PRIVATE = re.compile(r"(?<![\d.])(?:10\.\d{1,3}|192\." + r"168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}(?![\d.])")


def check(root):
    found = []
    for name in checker.files(root):
        for number, line in enumerate(checker.read(root, name).split("\n"), 1):
            for match in [*PATH.finditer(line), *PRIVATE.finditer(line)]:
                found.append(f"{name}:{number}: {line[max(0, match.start() - 10):match.end() + 30].strip()}")
    return found


CLEAN = {"README.md": "engine/work/x and https://example.org/home/page, version 10.1.2\n"}
PLANTS = [(path, {"a.md": f"see {path} there\n"}, "a.md:1") for path in
          ["/" + "work/main", "/" + "root/x", "/" + "home/someone", "/tmp/" + "bash_jobs.0/1", "10.2." + "3.4"]]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
