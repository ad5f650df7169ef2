#!/usr/bin/env python3
"""A budget that only tightens: a file has at most 400 lines, a function at most 60. Over budget means split.

Functions are found by matching braces in C++ and CUDA text from which comments, literals and directives are taken
away, and by Python's own parser in Python. Shell scripts are measured by file.
"""
import ast
import pathlib
import re

import checker

MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 60
MEASURED = checker.CODE | {".py", ".sh", ".build", ""}
SCOPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum)\b", re.DOTALL)


def is_function(head):
    """Whether a brace after `head` (the text since the last ; { or }) opens a function's body."""
    head = head.strip()
    if "(" not in head or head.count("(") != head.count(")"):
        return False
    if re.search(r"(=|,|return)$", head):  # an initialiser
        return False
    return not SCOPE.match(head)


def functions(text):
    """(first line, last line, head) of each outermost function in C++ text."""
    code = checker.code_only(text)
    head_start, depth, line = 0, 0, 1
    opened = None  # (depth, first line, head) of the function that we are in
    for position, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == "{":
            head = code[head_start:position]
            if opened is None and is_function(head):
                begin = head_start + len(head) - len(head.lstrip())
                opened = (depth, code.count("\n", 0, begin) + 1, " ".join(head.split()))
            depth += 1
            head_start = position + 1 if opened is None else head_start
        elif char == "}":
            depth -= 1
            if opened is not None and opened[0] == depth:
                if re.match(r"\s*[,{]", code[position + 1:position + 200]):
                    continue  # x_{1}, y_{2} { : still the constructor's initialisers
                yield opened[1], line, opened[2]
                opened = None
            if opened is None:
                head_start = position + 1
        elif char == ";" and opened is None:
            if code.count("(", head_start, position) == code.count(")", head_start, position):
                head_start = position + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno, node.name


def check(root):
    found = []
    for name in checker.files(root, MEASURED):
        suffix = pathlib.PurePosixPath(name).suffix
        if name == "LICENSE" or (suffix == "" and not checker.read(root, name).startswith("#")):
            continue
        text = checker.read(root, name)
        lines = text.count("\n")
        if lines > MOST_FILE_LINES:
            found.append(f"{name}: {lines} lines, {MOST_FILE_LINES} at most")
        measure = python_functions if suffix == ".py" else functions if suffix in checker.CODE else None
        for first, last, head in measure(text) if measure else ():
            length = last - first + 1
            if length > MOST_FUNCTION_LINES:
                found.append(f"{name}:{first}: {length} lines, {MOST_FUNCTION_LINES} at most: {head[:80]}")
    return found


def body(lines, indent="  "):
    return "".join(f"{indent}x += {i};\n" for i in range(lines))


CLEAN = {
    "engine/a.cpp": "namespace a {\nclass A {\n public:\n" + body(70, "  int ") .replace("+=", "=") + "};\n"
                    "int table[] = {\n" + "  1,\n" * 80 + "};\n"
                    'const char* t = "{ ( \\" {";  // {\nint f(int x) {\n' + body(57) + "  return x;\n}\n}\n",
    "engine/b.h": "A::A() : x_{1}, y_{2} {\n}\n" + "int y;\n" * 100,
    "tests/a.py": "def f():\n    pass\n",
}
PLANTS = [
    ("a long file", {"engine/c.h": "int x;\n" * 401}, "401 lines"),
    ("a long script", {"tests/tool": "#!/bin/sh\n" + "echo\n" * 400}, "401 lines"),
    ("a long function", {"engine/c.cpp": "int f() {\n" + body(60) + "}\n"}, "62 lines"),
    ("a long member in a class in a namespace",
     {"engine/c.h": "namespace n {\nstruct S : B<int(int)> {\n  int f() const {\n" + body(60) + "  }\n};\n}\n"}, "62 lines"),
    ("a long kernel after a table", {"operator/k.cu": "int t[] = {1, 2};\ntemplate <class T>\n__global__ void k(T* x) {\n"
                                     + body(60) + "}\n"}, "63 lines"),
    ("a long constructor with braces in its initialisers",
     {"engine/c.cpp": "A::A(int a)\n    : x_{1},\n      y_(f(2)), z_{} {\n" + body(60) + "}\n"}, "64 lines"),
    ("a long test case", {"tests/t.cpp": 'TEST_CASE("a } b", "[x]") {\n' + body(60) + "}\n"}, "62 lines"),
    ("a long function that holds an odd literal",
     {"engine/c.cpp": "int f() {\n  auto c = '{'; int n = 1'000; auto r = R\"x({)\" { )x\";\n" + body(59) + "}\n"}, "62 lines"),
    ("a long Python function", {"tests/b.py": "def f():\n" + "    pass\n" * 61}, "62 lines"),
]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
