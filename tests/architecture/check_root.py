#!/usr/bin/env python3
"""The root holds the rooms and the files that a repository needs, and nothing else."""
import checker

ALLOWED = {
    *checker.ROOMS, "samples", "tests", "docs", ".ci", "meson.build", "meson.options", "meson_options.txt", "README.md", "AGENTS.md",
    "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", ".clang-format", ".gitignore", "bootstrap",
}


def check(root):
    names = {name.split("/")[0] for name in checker.files(root)}
    return [f"{name}: does not belong at the root" for name in sorted(names - ALLOWED)]


CLEAN = {"engine/a.h": "", "README.md": "", ".ci/run": ""}
PLANTS = [("a folder", {"scripts/a.py": ""}, "scripts"), ("a file", {"notes.txt": ""}, "notes.txt")]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
