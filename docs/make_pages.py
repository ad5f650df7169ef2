#!/usr/bin/env python3
"""Makes the HTML pages of the public API by Doxygen: make_pages.py DOXYGEN ROOT INCLUDE_ROOT OUT VERSION.

Pages are made of what the rooms' doors reach outside detail/, of README and of the pages in docs. Any warning of Doxygen's
fails. `make_pages.py --filter FILE` is the filter that Doxygen runs over each file.
"""
import pathlib
import re
import subprocess
import sys

DOORS = ["gluon/sluice.h", "engine/asio.h", "engine/interop.h", "engine/region.h"]
PAGES = ["README.md", "docs/engine.md", "docs/embedding.md", "docs/from_mxnet.md", "docs/graph_file.md", "docs/hybrid.md",
         "docs/inspect.md", "docs/operators.md", "docs/serving.md", "docs/training.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "tests/bench/RESULTS.md"]
INCLUDE = re.compile(r"^#include <sluice/([^>]+\.h)>", re.MULTILINE)

SETTINGS = """
PROJECT_NAME = Sluice
PROJECT_NUMBER = {version}
PROJECT_BRIEF = "An asynchronous dependency engine with arrays and layers"
OUTPUT_DIRECTORY = "{out}"
INPUT = {inputs}
USE_MDFILE_AS_MAINPAGE = "{root}/README.md"
STRIP_FROM_PATH = "{include}" "{root}"
STRIP_FROM_INC_PATH = "{include}"
IMAGE_PATH = "{root}" "{root}/docs"
INPUT_FILTER = "{python} {script} --filter"
HTML_EXTRA_STYLESHEET = "{root}/docs/theme.css"
INCLUDE_PATH = "{include}"
EXTENSION_MAPPING = def=C++
MACRO_EXPANSION = YES
PREDEFINED = SLUICE_API= "requires=" DOXYGEN
GENERATE_LATEX = NO
GENERATE_TREEVIEW = YES
DISABLE_INDEX = YES
HTML_DYNAMIC_SECTIONS = NO
HAVE_DOT = NO
CLASS_GRAPH = NO
JAVADOC_AUTOBRIEF = YES
QT_AUTOBRIEF = NO
MULTILINE_CPP_IS_BRIEF = NO
EXTRACT_ALL = NO
HIDE_UNDOC_MEMBERS = NO
HIDE_FRIEND_COMPOUNDS = YES
EXCLUDE_SYMBOLS = *::detail *::detail::* detail
SHOW_INCLUDE_FILES = NO
VERBATIM_HEADERS = NO
SORT_MEMBER_DOCS = NO
DISTRIBUTE_GROUP_DOC = YES
TOC_INCLUDE_HEADINGS = 2
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_NO_PARAMDOC = NO
WARN_LOGFILE = "{out}/warnings.txt"
"""


def headers(root):
    """What the doors reach, as paths from the root."""
    seen, todo = [], list(DOORS)
    while todo:
        name = todo.pop(0)
        path = "gluon/sluice.h" if name == "sluice.h" else name
        if path in seen or "/detail/" in path or "/cuda/" in path:
            continue
        seen.append(path)
        todo += INCLUDE.findall((root / path).read_text())
    return sorted(seen)


def without_foreign_links(text, page, known):
    """Links to files that are no page become their text; those to pages are written as from the root."""
    def replace(match):
        mark, label, target = match.groups()
        if mark or "://" in target or target.startswith("#"):
            return match.group(0)
        place = pathlib.PurePosixPath(*pathlib.PurePosixPath(page).parent.parts, target)
        return f"[{label}]({place})" if str(place) in known else f"`{label}`"
    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", replace, text)


TABLE = re.compile(r"#define (\w+)\(name, ((?:\w+, )*)\.\.\.\)\s((?:.*\\\n)*.*)\n#include <sluice/([^>]+\.def)>\n#undef \w+\n")


def with_parameters(body, row):
    """What a macro says of each parameter of a row, ((type, name, value), ...), written out: ", type name"."""
    listed = re.match(r"\s*\((\(.*?\))\)", row, re.DOTALL)
    listed = "".join(re.sub(r"\s*\(([\w:]+), (\w+), [^()]*\),?", r", \1 \2", listed.group(1)) if listed else "")
    return re.sub(r" SLUICE_EACH_PARAMETER\(\w+, parameters\)", listed, body)


def with_pasted(body, text, columns, row):
    """What the macros are whose names a macro puts together with a word of a row, MACRO_##column."""
    values = dict(zip(columns.replace(" ", "").split(","), (value.strip() for value in row.split(","))))
    macros = dict(re.findall(r"(?m)^#define (\w+) ?(.*)$", text))
    return re.sub(r"(\w+)##(\w+)", lambda pasted: macros.get(pasted[1] + values.get(pasted[2], ""), ""), body)


def with_rows(text, root):
    """Declarations that a macro makes of the rows of a .def file, written out with the rows' own sentences."""
    def declarations(match):
        macro, columns, body, name = match.groups()
        body = body.replace("\\\n", "\n")
        rows = re.findall(r'^%s(?:_WITH)?\(\s*(\w+),(.*?)"([^"]*)"\)$' % macro.replace("_WITH", ""), (root / name).read_text(),
                          re.MULTILINE | re.DOTALL)
        made = ((re.sub(r"\bname\b", row, with_parameters(with_pasted(body, text, columns, rest), rest)), doc)
                for row, rest, doc in rows)
        return "".join(re.sub(r"(?m)^\s*(?=SLUICE_API)", f"/// {doc}\n", one) + "\n" for one, doc in made)
    return TABLE.sub(declarations, text)


def filtered(file):
    text = file.read_text()
    if file.suffix != ".md":
        return with_rows(text, pathlib.Path(__file__).resolve().parents[1])
    root = pathlib.Path(__file__).resolve().parents[1]
    page = file.resolve().relative_to(root).as_posix()
    return without_foreign_links(text, page, PAGES)


def main():
    if sys.argv[1] == "--filter":
        sys.stdout.write(filtered(pathlib.Path(sys.argv[2])))
        return
    doxygen, root, include, out, version = sys.argv[1:]
    root, out = pathlib.Path(root).resolve(), pathlib.Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    include = pathlib.Path(include).resolve()
    files = [*(root / name for name in [*PAGES, "docs/namespaces.dox"]), *(include / "sluice" / name for name in headers(root))]
    inputs = " ".join(f'"{file}"' for file in files)
    settings = SETTINGS.format(version=version, out=out, inputs=inputs, root=root, include=include, python=sys.executable,
                               script=pathlib.Path(__file__).resolve())
    subprocess.run([doxygen, "-"], input=settings, text=True, check=True)
    warnings = (out / "warnings.txt").read_text().strip()
    if warnings:
        sys.exit(f"{warnings}\n{len(warnings.splitlines())} lines of warnings")
    print(f"{len(list((out / 'html').glob('*.html')))} pages: {out / 'html' / 'index.html'}")


if __name__ == "__main__":
    main()
