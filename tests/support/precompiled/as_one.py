#!/usr/bin/env python3
"""Which files of a target are compiled as one: as_one.py INCLUDES OUTPUTS LIMIT NAME FILE.. writes files that include up to
LIMIT of them each, in the folder OUTPUTS, and prints what to compile. Headers are so parsed, and what they hold compiled,
once for all of these.

Together are files of one folder that mean the same for it. None has a name of its own (in an anonymous namespace, a type, an alias, a
macro) that another of them has, or that a header of ours declares which another of them includes. Names are found by
their looks: where that does not do, the compiler says so, and `compile` of tests/support/prepare builds each alone.
"""
import functools
import pathlib
import re
import sys

COMMENTS_AND_TEXTS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<(sluice/[^>]+)>|"([^"]+)")', re.MULTILINE)
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*|::|[^\s\w]")
TYPES = ("struct", "class", "enum", "union", "concept", "using", "typedef")
# What stands in one file alone, also where its namespace has a name.
OF_ONE_FILE = (*TYPES, "static", "constexpr")
# With brackets of their own.
SPECIFIERS = {"alignas", "decltype", "explicit", "__launch_bounds__", "__attribute__"}
# Many files use these namespaces, and others do not mind.
USED_BY_ALL = {"sluice", "sluice::test"}
# More would take so long that all else is done before.
MOST_BYTES = 90_000


def outer(statement):
    """The words of a statement that stand in no brackets; of these those that open remain, but of templates."""
    words, depth = [], 0
    for i, word in enumerate(statement):
        opens_template = word == "<" and i > 0 and statement[i - 1].isidentifier() and ">" in statement[i:]
        if word in (")", "]") or (word == ">" and depth and statement[i - 1] != "-"):
            depth -= 1
        elif word in ("(", "[") or opens_template:
            if depth == 0 and word != "<":
                words.append(word)
            depth += 1
        elif depth == 0:
            words.append(word)
    while words[:1] in (["template"], ["["]):
        words = words[1:]
    return words


def declared_by(words):
    if not words or words[0] in ("static_assert", "friend", "namespace") or "operator" in words:
        return []
    if words[0] in TYPES:
        named = [word for word in words[1:] if word.isidentifier() and word not in ("class", "struct", "alignas")]
        last = words[0] == "typedef" or (words[0] == "using" and "=" not in words)
        return named[-1:] if last else named[:1]
    words = [word for i, word in enumerate(words) if not (word in SPECIFIERS or word == "(" and words[i - 1] in SPECIFIERS)]
    if "=" not in words and "(" in words:
        before = words[words.index("(") - 1]
        return [before] if before.isidentifier() else []
    # Values, of which a line may have several.
    ends = [i for i, word in enumerate([*words, ";"]) if word in ("=", ",", ";", "(", "[")]
    return [words[i - 1] for i in ends if i > 0 and words[i - 1].isidentifier()]


class Names:
    """What a text declares outside of functions and types."""

    def __init__(self, text):
        self.all, self.hidden, self.shown, self.used = set(), set(), set(), set()
        kept = [name for name in DEFINE.findall(text) if not re.search(rf"^\s*#\s*undef\s+{name}\b", text, re.MULTILINE)]
        self.all.update(kept)
        self.hidden.update(kept)
        bare = COMMENTS_AND_TEXTS.sub(lambda found: " " if found[0][0] == "/" else '""', text)
        self.read(WORD.findall(DIRECTIVE.sub(" ", bare)))

    def read(self, words):
        """Follows brackets: `scopes` are the open namespaces, whether they are anonymous; `inner` counts those in a body."""
        scopes, statement, inner = [], [], 0
        for word in words:
            if inner:
                inner += (word == "{") - (word == "}")
                # A function ends with its body, a type or a value with what follows it.
                if inner == 0 and not {*TYPES, "="} & set(outer(statement)):
                    statement = []
            elif word == "{" and {"namespace", "extern"} & set(statement[:2]) and "(" not in statement:
                scopes.append(statement[-1] == "namespace")
                statement = []
            elif word == "{":
                self.declared(statement, any(scopes))
                inner = 1
            elif word in ("}", ";"):
                if word == ";":
                    self.declared(statement, any(scopes))
                elif scopes:
                    scopes.pop()
                statement = []
            else:
                statement.append(word)

    def declared(self, statement, is_hidden):
        if statement[:2] == ["using", "namespace"]:
            self.used.add("".join(statement[2:]))
            return
        words = outer(statement)
        for name in declared_by(words):
            if name.isupper():  # a macro's call
                continue
            self.all.add(name)
            if words[0] == "using" and "=" not in words:
                continue
            if is_hidden:
                self.hidden.add(name)
            elif words[0] in OF_ONE_FILE:
                self.shown.add(name)


@functools.lru_cache(None)
def names_of(path):
    return Names(path.read_text())


@functools.lru_cache(None)
def included_by(path, folders):
    """The headers of ours that a file itself includes."""
    found = []
    for names in INCLUDE.findall(path.read_text()):
        name = names[0] or names[1]
        places = [folder / name for folder in (path.parent, *folders) if (folder / name).is_file()]
        found += [place.resolve() for place in places[:1]]
    return found


class File:
    def __init__(self, path, folders):
        self.path = pathlib.Path(path).resolve()
        self.bytes = self.path.stat().st_size
        self.headers, left = set(), [self.path]
        while left:
            fresh = set(included_by(left.pop(), folders)) - self.headers
            self.headers |= fresh
            left += fresh
        names = names_of(self.path)
        declared = set().union(*(names_of(header).all for header in self.headers))
        self.seen = declared | names.all
        # What its headers promise is everybody's.
        self.own = names.hidden | (names.shown - declared)
        self.used = names.used - USED_BY_ALL

    def goes_with(self, other):
        return self.used == other.used and not self.own & other.seen and not other.own & self.seen


def grouped(files, limit):
    """In their order, and of one folder each: a file that is added moves few others."""
    groups = []
    for file in files:
        for group in groups:
            is_full = len(group) == limit or sum(one.bytes for one in group) + file.bytes > MOST_BYTES
            if not is_full and group[0].path.parent == file.path.parent and all(one.goes_with(file) for one in group):
                group.append(file)
                break
        else:
            groups.append([file])
    return groups


def main():
    includes, outputs, limit, name = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    folders = (includes, pathlib.Path(__file__).resolve().parents[3])
    outputs.mkdir(exist_ok=True)
    for i, group in enumerate(grouped([File(path, folders) for path in sys.argv[5:]], limit)):
        paths = [file.path for file in group]
        if len(paths) > 1:
            text = "".join(f'#include "{path}"\n' for path in paths)
            paths = [outputs / f"{name}_{i}.cpp"]
            if not paths[0].exists() or paths[0].read_text() != text:
                paths[0].write_text(text)
        print(paths[0])


if __name__ == "__main__":
    main()
