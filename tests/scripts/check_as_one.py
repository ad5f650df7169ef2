#!/usr/bin/env python3
"""Which files are compiled as one, and which are not: check_as_one.py ROOT."""
import pathlib
import subprocess
import sys
import tempfile

HEADER = "#pragma once\nnamespace sluice {\nint declared(int x);\nstruct Promised;\n}\n"
# What one file says, what another does, and whether they may be one.
TABLE = [
    ("namespace { int a(int x = 1) { return x; } }", "namespace { int b() { return 2; } }", True),
    ("namespace { int a(int x = 1) { return x; } int c() { return 1; } }", "namespace { int c() { return 2; } }", False),
    ("namespace { struct A { int b; }; }", "namespace { int b() { return 1; } }", True),
    ("namespace { struct A { int b; } a; int c; }", "namespace { int c() { return 1; } }", False),
    ("namespace { constexpr double a = 1, b = 2; }", "namespace { int b() { return 1; } }", False),
    ("namespace { constexpr int a[] = {1, 2}; int b; }", "namespace { int b() { return 1; } }", False),
    ("namespace { template <class T, class U = int> T a(U x) { return x; } }", "namespace { using a = int; }", False),
    ("void f() { struct Inner {}; }", "namespace { struct Inner {}; }", True),
    ("struct Kind { int a; };", "struct Kind { long a; };", False),
    ("int f() { return 1; }", "int f(int x) { return x; }", True),
    ("static int a() { return 1; }", "static int a() { return 2; }", False),
    ("namespace { alignas(8) int a; void b(int x = 1) {} }", "namespace { alignas(8) int c; }", True),
    ("namespace { alignas(8) int a; }", "namespace { alignas(8) int a; }", False),
    ("// namespace { int a; }\n", "namespace { int a; }", True),
    ('namespace { const char* a = "{"; int b; }', "namespace { int b; }", False),
    ("#define A 1\n", "#define A 2\n", False),
    ("#define A 1\n#undef A\n", "#define A 2\n", True),
    ("using namespace sluice;", "using namespace sluice::test;", True),
    ("using namespace sluice::loss;", "using namespace sluice;", False),
    ('#include "header.h"\n', "namespace { int declared(int x) { return x; } }", False),
    ('#include "header.h"\nnamespace sluice { struct Promised {}; }', '#include "header.h"\n', True),
    ('TEST_CASE("a") { int b; }', 'TEST_CASE("b") { int b; }', True),
]


def compiled(root, folder, texts, limit=8):
    """What is compiled for files of these texts."""
    (folder / "header.h").write_text(HEADER)
    files = [folder / f"{i}.cpp" for i in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_text(text)
    done = subprocess.run(
        [sys.executable, str(root / "tests/support/precompiled/as_one.py"), str(folder), str(folder / "as_one"), str(limit), "name", *files],
        capture_output=True, text=True, check=True)
    return done.stdout.split()


def main():
    root = pathlib.Path(sys.argv[1])
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        for first, second, are_one in TABLE:
            for texts in ((first, second), (second, first)):
                if (len(compiled(root, folder, texts)) == 1) != are_one:
                    wrong += 1
                    print(f"{'apart' if are_one else 'one'}: {texts}")
        some = compiled(root, folder, [f"int f{i}();" for i in range(5)], limit=2)
        included = [line for file in some for line in pathlib.Path(file).read_text().splitlines() if line.startswith("#include")]
        alone = [file for file in some if "as_one" not in file]
        if len(some) != 3 or len(included) != 4 or len(alone) != 1:
            wrong += 1
            print(f"5 files, at most 2 as one: {some} with {included}")
    print(f"as_one: {len(TABLE)} pairs")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
