#!/usr/bin/env python3
"""README.md and the pages of docs: their C++ examples compile as users compile them, without a warning where the flags
ask for that, what they link to is there, and an example whose output follows it as a ```text block prints just that.

check_readme.py ROOT COMPILER [flags]                compiles
check_readme.py --run FOLDER ROOT COMPILER [flags]   runs the examples with an output; libsluice.so is in FOLDER
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import checker

BLOCK = re.compile(r"^```cpp\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)


def pages(root):
    for name in checker.files(root, {".md"}):
        if name in ("README.md", "samples/README.md") or name.startswith("docs/"):
            yield name, checker.read(root, name)


def examples(text):
    """(line, source, output or None) of each ```cpp block."""
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start()) + 2, match.group(1), match.group(2)


def missing_links(root, name, text):
    text = BLOCK.sub(lambda block: "\n" * block.group(0).count("\n"), text)  # [&](Queue queue) is no link
    for match in re.finditer(r"\]\((?!https?:)([^)#]+)", text):
        if not (pathlib.Path(root) / pathlib.PurePosixPath(name).parent / match.group(1)).exists():
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(1)} does not exist"


def unknown_names(root):
    """Names in the last column of docs/from_mxnet.md that no header of the rooms has."""
    page = "docs/from_mxnet.md"
    if not (pathlib.Path(root) / page).is_file():
        return
    headers = " ".join(checker.read(root, name) for name in checker.files(root, {".h", ".def"})
                       if name.split("/")[0] in checker.ROOMS)
    known = set(re.findall(r"\w+", headers))
    for number, line in enumerate(checker.read(root, page).split("\n"), 1):
        cells = line.split(" | ")
        for span in re.findall(r"`([^`]+)`", cells[-1]) if len(cells) > 1 else []:
            code = re.sub(r'"[^"]*"|\b\d[\w.]*', "", span)
            for word in re.findall(r"\b[A-Za-z_]{4,}\b", code):
                if word not in known | EXAMPLE_NAMES:
                    yield f"{page}:{number}: {word}: no header has that name"


EXAMPLE_NAMES = {"device", "values", "vector", "shape", "params", "head", "rate"}


def compile_source(compiler, source, *arguments, folder=None):
    """The compiler's complaints, "" if it has none. The source is called example.cpp."""
    with tempfile.TemporaryDirectory() as own:
        file = pathlib.Path(folder or own) / "example.cpp"
        file.write_text(source)
        run = subprocess.run([*compiler, "example.cpp", *arguments], cwd=file.parent, capture_output=True, text=True)
    return run.stderr or "failed" if run.returncode != 0 else ""


def check_with(root, compiler):
    found, number = list(unknown_names(root)), 0
    for name, text in pages(root):
        found += missing_links(root, name, text)
        for line, source, _ in examples(text):
            number += 1
            complaint = compile_source(compiler, source, "-S", "-o", "/dev/null")
            if complaint:
                found.append(f"{name}:{line}: {complaint}")
    return found if number > 0 else [*found, "no page has a C++ example"]


def run_with(libraries, root, compiler):
    found, number = [], 0
    link = [f"-L{libraries}", "-lsluice", f"-Wl,-rpath,{libraries}", f"-Wl,-rpath-link,{libraries}"] if libraries else []
    for name, text in pages(root):
        for line, source, output in examples(text):
            if output is None:
                continue
            number += 1
            with tempfile.TemporaryDirectory() as folder:
                said = compile_source(compiler, source, "-o", "example", *link, folder=folder)
                if not said:
                    run = subprocess.run([folder + "/example"], capture_output=True, text=True, timeout=600)
                    said = run.stdout + run.stderr
            if said != output:
                found.append(f"{name}:{line}: printed\n{said}instead of\n{output}")
    return found if number > 0 else [*found, "no example shows what it prints"]


STRICT = ["c++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"]
HELLO = "#include <cstdio>\nint main() { std::puts(\"hello\"); }\n"
PLANTS = [
    ("an example that does not compile", {"README.md": "```cpp\nint main() { return nothing; }\n```\n"}, "README.md:2"),
    ("an example with a warning", {"README.md": "```cpp\nstruct A { int a, b; };\nA x{.a = 1};\n```\n"}, "README.md:2"),
    ("an example of a page", {"docs/a.md": "# A\n```cpp\nnothing\n```\n"}, "docs/a.md:3"),
    ("a picture that is not there", {"README.md": "![a](docs/a.svg)\n"}, "docs/a.svg does not exist"),
    ("a page that links as README would", {"docs/a.md": "[a](docs/a.md)\n"}, "docs/a.md does not exist"),
    ("a name that is not there", {"docs/from_mxnet.md": "| a | `engine.pusch(x)` |\n"}, "from_mxnet.md:1: pusch"),
    ("another output", {"README.md": f"```cpp\n{HELLO}```\n\n```text\ngoodbye\n```\n"}, "instead of\ngoodbye"),
    ("no example", {"README.md": "Nothing here.\n"}, "no page has"),
    ("no output", {"README.md": "```cpp\nint main() {}\n```\n"}, "no example shows"),
]
CLEAN = {"README.md": f"# A\n```cpp\n{HELLO}```\nor\n\n```cpp\n{HELLO}```\n\n```text\nhello\n```\n"}


def main(arguments):
    if arguments == ["--self-test"]:
        checker.main(lambda root: check_with(root, STRICT) + run_with("", root, STRICT), PLANTS, CLEAN)
    libraries = None
    if arguments[:1] == ["--run"]:
        libraries, arguments = arguments[1], arguments[2:]
    if len(arguments) < 2:
        sys.exit("usage: check_readme.py [--run FOLDER] ROOT COMPILER [flags] | --self-test")
    root, *compiler = arguments
    offences = run_with(libraries, root, compiler) if libraries else check_with(root, compiler)
    print("\n".join([*offences, f"{len(offences)} offences"]))
    sys.exit(1 if offences else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
