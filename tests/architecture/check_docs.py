#!/usr/bin/env python3
"""What a room exports is documented: each class, struct, enum and free function with SLUICE_API in a public header
stands in a paragraph with a `///` comment. A paragraph ends at a blank line, so one comment may cover a group of
overloads. Members, operators, detail/ folders and `namespace detail` are not measured.
"""
import re

import checker

OPENS_DETAIL = re.compile(r"^(?:inline\s+)?namespace\s+(?:\w+::)*detail\b")


def public_headers(root):
    for name in checker.files(root, {".h"}):
        parts = name.split("/")
        if parts[0] in checker.ROOMS and "detail" not in parts and not checker.is_cuda_file(name):
            yield name


def declarations(code):
    """(line index, text) of what is declared at namespace scope outside `namespace detail`."""
    depth_of = []  # one entry an open brace: 'namespace', 'detail' or 'other'
    statement = ""
    for index, line in enumerate(code.split("\n")):
        at_scope = all(kind == "namespace" for kind in depth_of)
        if at_scope and not statement.strip() and line.strip():
            yield index, line.strip()
        for char in line + "\n":
            if char == "{":
                head = statement.strip()
                kind = "detail" if OPENS_DETAIL.match(head) else "namespace" if head.startswith("namespace") else "other"
                depth_of.append(kind)
                statement = ""
            elif char == "}":
                if depth_of:
                    depth_of.pop()
                statement = ""
            elif char == ";" and statement.count("(") == statement.count(")"):
                statement = ""
            else:
                statement += char


def is_documented(lines, index):
    while index >= 0 and lines[index].strip():
        if lines[index].lstrip().startswith("///"):
            return True
        index -= 1
    return False


def check(root):
    found = []
    for name in public_headers(root):
        text = checker.read(root, name)
        lines = text.split("\n")
        code = checker.code_only(text)
        rows = code.split("\n")
        for index, first in declarations(code):
            joined = " ".join(row.strip() for row in rows[index:index + 4])
            declared = joined.split(";")[0].split("{")[0]
            if "SLUICE_API" in declared and "operator" not in declared.split("(")[0] and not is_documented(lines, index):
                found.append(f"{name}:{index + 1}: no docstring: {first[:90]}")
    return found


CLEAN = {
    "engine/a.h": "#pragma once\nnamespace sluice {\nclass Later;\nnamespace detail {\nSLUICE_API void hidden();\n}\n"
                  "/// Adds.\nSLUICE_API int add(int a);\nSLUICE_API int add(long a);\n\n"
                  "/// Holds.\nclass SLUICE_API A {\n public:\n  int x();\n\n  struct B {};\n};\n}\n",
    "engine/detail/b.h": "struct Undocumented {};\n",
}
PLANTS = [
    ("a free function", {"engine/c.h": "namespace sluice {\nSLUICE_API int f();\n}\n"}, "c.h:2"),
    ("a class", {"engine/c.h": "namespace sluice {\n// Plain comment.\nclass SLUICE_API C {\n};\n}\n"}, "c.h:3"),
    ("a template", {"gluon/c.h": "namespace sluice::gluon {\n\ntemplate <class T>\nclass SLUICE_API C {};\n}\n"}, "c.h:3"),
    ("after a documented one", {"engine/c.h": "/// Yes.\nSLUICE_API int f();\n\nSLUICE_API int g();\n"}, "c.h:4"),
]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
