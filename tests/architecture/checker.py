"""What the checkers of this folder share: the files of a tree, and the two ways a checker is run.

A checker is called as `check_x.py ROOT [arguments]` and prints its offences (exit 1 if there are any), or as
`check_x.py --self-test`, which plants each of its PLANTS in a temporary tree and demands that it is caught.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOMS = ["engine", "storage", "ndarray", "operator", "gluon"]
CODE = {".h", ".cpp", ".cu", ".cuh"}


def files(root, suffixes=None):
    """Files of the tree as relative POSIX paths: what git tracks or would track; without git, what is not hidden."""
    root = pathlib.Path(root)
    names = None
    if (root / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(["git", "-c", f"safe.directory={root.resolve()}", "-C", str(root), "ls-files",
                                 "--cached", "--others", "--exclude-standard"], capture_output=True, text=True)
        names = listed.stdout.splitlines() if listed.returncode == 0 else None
    if names is None:
        names = [p.relative_to(root).as_posix() for p in root.rglob("*")]
        names = [n for n in names if not n.startswith(("build", ".")) and "/." not in n and "__pycache__" not in n]
    for name in sorted(set(names)):
        path = root / name
        if path.is_file() and not path.is_symlink() and (suffixes is None or path.suffix in suffixes):
            yield name


def read(root, name):
    return (pathlib.Path(root) / name).read_text(encoding="utf-8", errors="replace")


def is_cuda_file(name):
    """Files that may name CUDA: device code, library calls named so, and the engine's own room for it."""
    stem = pathlib.PurePosixPath(name)
    return stem.suffix in (".cu", ".cuh") or stem.stem.endswith("_cuda") or name.startswith("engine/cuda/")


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\\ ]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f_])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)


def code_only(text, keep_directives=False):
    """C++ text with comments, literals and (unless kept) preprocessor lines blanked; lines keep their numbers."""
    def blank(match):
        piece = match.group(0)
        if keep_directives and piece.lstrip().startswith("#"):
            return piece
        lines = "\n" * piece.count("\n")
        return '""' + lines if piece.startswith(('"', "R")) else " " + lines
    return _TOKEN.sub(blank, text)


def plant(tree, planted):
    for name, text in planted.items():
        path = pathlib.Path(tree) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def self_test(check, plants, clean):
    """Each plant is (what it is, {file: text}, a piece of the expected offence). `clean` must raise no offence."""
    wrong = []
    with tempfile.TemporaryDirectory() as tree:
        plant(tree, clean)
        offences = check(tree)
        if offences:
            wrong.append(f"a clean tree is accused: {offences}")
    for what, planted, expected in plants:
        with tempfile.TemporaryDirectory() as tree:
            plant(tree, {**clean, **planted})
            offences = check(tree)
            if not any(expected in offence for offence in offences):
                wrong.append(f"not caught: {what} (offences: {offences})")
    for line in wrong:
        print(line)
    print(f"{len(plants)} planted offences, {len(wrong)} problems")
    return 1 if wrong else 0


def main(check, plants, clean):
    if sys.argv[1:2] == ["--self-test"]:
        sys.exit(self_test(check, plants, clean))
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_dir():
        sys.exit(f"usage: {sys.argv[0]} ROOT | --self-test")
    offences = check(sys.argv[1])
    for offence in offences:
        print(offence)
    print(f"{len(offences)} offences")
    sys.exit(1 if offences else 0)
