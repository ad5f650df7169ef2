#!/usr/bin/env python3
"""Option structs are written {.name = value}, which compilers remark upon where a member left out has no default: in
public headers each member of Task and of a struct whose name ends in Options, Update or Spec has one.
"""
import re

import checker

STRUCT = re.compile(r"\bstruct\s+(?:SLUICE_API\s+)?(Task|\w+(?:Options|Update|Spec))\s*\{")


def body_end(code, start):
    depth = 0
    for position in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if depth == 0:
            return position
    return len(code)


def members(code, start, end):
    """(position, text) of what is declared between the braces at `start` and `end`; bodies of functions left out."""
    begin, depth, position = start + 1, 0, start + 1
    while position < end:
        char = code[position]
        if char in "{(":
            depth += 1
        elif char in "})":
            depth -= 1
            after = code[position + 1:end].lstrip()[:1]
            if char == "}" and depth == 0 and after not in (";", ",") and "=" not in code[begin:position].split("{")[0]:
                begin = position + 1  # the end of a function's body
        elif char == ";" and depth == 0:
            yield begin + len(code[begin:position]) - len(code[begin:position].lstrip()), code[begin:position].strip()
            begin = position + 1
        position += 1


def is_bare_member(text):
    if not text or re.match(r"(?:using|static|friend|enum|struct|class|template|typedef|explicit|public:|private:)\b", text):
        return False
    if re.search(r"\boperator\b", text):
        return False
    head = re.split(r"=|\{", text)[0]
    is_function = "(" in head and not re.search(r"<[^<>]*\([^<>]*$", head.split("(")[0] + "(")
    return not is_function and "=" not in text and "{" not in text


def check(root):
    found = []
    for name in checker.files(root, {".h"}):
        parts = name.split("/")
        if parts[0] not in checker.ROOMS or "detail" in parts or checker.is_cuda_file(name):
            continue
        code = checker.code_only(checker.read(root, name))
        for match in STRUCT.finditer(code):
            start = match.end() - 1
            for position, text in members(code, start, body_end(code, start)):
                if is_bare_member(text):
                    line = code.count("\n", 0, position) + 1
                    found.append(f"{name}:{line}: {match.group(1)}: '{' '.join(text.split())}' has no default")
    return found


CLEAN = {
    "engine/a.h": "struct AOptions {\n  int x = 1;  // a\n  std::string y = {}, z{};\n  long w = long{1} << 20;\n  std::function<void(int)> f = {};\n"
                  "  bool operator==(const AOptions&) const = default;\n  int twice() const { return 2 * x; }\n"
                  "  int thrice() const;\n};\nstruct Plain {\n  int x;\n};\n",
    "engine/detail/a.h": "struct BOptions {\n  int x;\n};\n",
}
PLANTS = [
    ("a string", {"gluon/c.h": "struct COptions {\n  int a = 1;\n  std::string root;  // b\n};\n"}, "gluon/c.h:3"),
    ("a function object", {"gluon/c.h": "struct COptions {\n  std::function<void(int)> f;\n};\n"}, "gluon/c.h:2"),
    ("after a function", {"gluon/c.h": "struct COptions {\n  int f() { return 1; }\n  int g;\n};\n"}, "gluon/c.h:3"),
    ("a member of Task", {"engine/task.h": "struct Task {\n  Access access;\n};\n"}, "task.h:2"),
]

if __name__ == "__main__":
    checker.main(check, PLANTS, CLEAN)
