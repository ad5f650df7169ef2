#!/usr/bin/env python3
"""Installs into a temporary prefix and builds an outside program on it: embed.py BUILD_FOLDER pkg-config|cmake CXX.

Nothing of the source tree is on the include path, so a header that the installation lacks is found out.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
EXPECTED = "embedded: [0. 2. 4.]"


def run(*command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def install(build, tree):
    """The prefix under `tree` that `meson install` filled, moved away from where it was configured for."""
    run("meson", "install", "-C", build, "--no-rebuild", "--quiet", env={**os.environ, "DESTDIR": tree / "staged"})
    headers = next((tree / "staged").rglob("sluice/sluice.h"))
    prefix = tree / "moved"
    shutil.move(headers.parents[2], prefix)
    return prefix, next(prefix.rglob("libsluice.so")).parent


def with_pkg_config(tree, libdir, compiler):
    env = {**os.environ, "PKG_CONFIG_PATH": str(libdir / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "sluice", env=env).split()
    run(compiler, HERE / "program.cpp", "-o", tree / "embedded", *flags)
    return tree / "embedded"


def with_cmake(tree, prefix, compiler):
    shutil.copy(HERE / "program.cpp", tree)
    shutil.copy(HERE / "CMakeLists.txt", tree)
    run("cmake", "-S", tree, "-B", tree / "out", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run("cmake", "--build", tree / "out")
    return tree / "out" / "embedded"


def main():
    build, way, compiler = sys.argv[1:]
    if shutil.which(way) is None:
        print(f"SKIPPED: no {way} here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        prefix, libdir = install(build, tree)
        program = with_cmake(tree, prefix, compiler) if way == "cmake" else with_pkg_config(tree, libdir, compiler)
        paths = [str(libdir), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        said = run(program, env={**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}).strip()
    print(said)
    if said != EXPECTED:
        sys.exit(f"expected: {EXPECTED}")


if __name__ == "__main__":
    main()
