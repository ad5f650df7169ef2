#!/usr/bin/env python3
"""Installs into a temporary prefix and builds outside programs on it: embed.py BUILD_FOLDER pkg-config|cmake CXX.

Nothing of the source tree is on the include path, so a header that the installation lacks is found out. One program uses
the engine alone: what operators need must not be loaded for it.
"""
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PROGRAMS = ("program", "engine_alone", "plugin_host")
PLUGIN = "plugin"
EXPECTED = "embedded: [0. 2. 4.]"
IN_C = "in C: 2 4 6"  # what the program in C99 prints
PLUGGED = "plugged: [ 2. 16. 54.] [ 6. 24. 54.] plugin_power: has no attribute powre; it has power"
MOST_KIB = 20 * 1024  # resident, of a program that uses the engine alone
MOST_THREAD_LOCAL = 1000  # bytes, see engine/detail/static_tls.h
LAZY = ("cudnn", "cublas", "cusolver", "dnnl", "gomp", "omp5", "openblas", "lapack")  # in the names of libraries that load at first use


def run(*command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=900, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def install(build, tree):
    """The prefix under `tree` that `meson install` filled, moved away from where it was configured for."""
    # One at a time: each installation writes its log into the build folder.
    with open(pathlib.Path(build) / "meson-logs" / "install.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("meson", "install", "-C", build, "--no-rebuild", "--quiet", env={**os.environ, "DESTDIR": tree / "staged"})
    headers = next((tree / "staged").rglob("sluice/sluice.h"))
    prefix = tree / "moved"
    shutil.move(headers.parents[2], prefix)
    return prefix, next(prefix.rglob("libsluice.so")).parent


def with_pkg_config(tree, libdir, compiler):
    env = {**os.environ, "PKG_CONFIG_PATH": str(libdir / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "sluice", env=env).split()
    for name in PROGRAMS:
        run(compiler, "-O2", HERE / f"{name}.cpp", "-o", tree / name, *flags)
    run(compiler, "-O2", "-shared", "-fPIC", HERE / f"{PLUGIN}.cpp", "-o", tree / f"lib{PLUGIN}.so", *flags)
    if shutil.which("cc") is not None:
        run("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", HERE / "in_c.c", "-o", tree / "in_c",
            *(flag for flag in flags if not flag.startswith("-std=")))
    return tree


def with_cmake(tree, prefix, compiler):
    for name in ("CMakeLists.txt", *(f"{name}.cpp" for name in (*PROGRAMS, PLUGIN))):
        shutil.copy(HERE / name, tree)
    run("cmake", "-G", "Ninja", "-S", tree, "-B", tree / "out", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={compiler}")
    run("cmake", "--build", tree / "out")
    return tree / "out"


def check_footprint(said):
    """`said` is what engine_alone found out about itself: its resident size and what it has loaded."""
    resident, *libraries = said.split()
    loaded = [pathlib.Path(library).name for library in libraries]
    for name in loaded:
        if any(word in name for word in LAZY):
            sys.exit(f"a program with the engine alone loads {name}; all: {' '.join(loaded)}")
    if not any("libsluice" in name for name in loaded):
        sys.exit(f"libsluice is not among what is loaded: {' '.join(loaded)}")
    if int(resident) >= MOST_KIB:
        sys.exit(f"a program with the engine alone takes {resident} KiB, promised are {MOST_KIB}; loaded: {loaded}")


def check_needed(library):
    """The library itself asks for none of them at start, whatever happens to be loaded here."""
    if shutil.which("readelf") is None:
        return
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library))
    if not needed or any(word in name for name in needed for word in LAZY):
        sys.exit(f"{library} needs {' '.join(needed) or 'nothing'}")


def check_thread_local(library):
    """Its thread-local objects find room where dlopen() brings it, of which glibc keeps 1664 bytes for all libraries."""
    if shutil.which("readelf") is None:
        return
    sizes = re.findall(r"^ *TLS +(?:0x[0-9a-f]+ +){4}(0x[0-9a-f]+)", run("readelf", "-lW", library), re.MULTILINE)
    if len(sizes) != 1 or not 0 < int(sizes[0], 16) <= MOST_THREAD_LOCAL:
        sys.exit(f"{library} has thread-local objects of {sizes} bytes, one segment of {MOST_THREAD_LOCAL} is allowed")
    run(sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(library)!r})")


def main():
    build, way, compiler = sys.argv[1:]
    if shutil.which(way) is None:
        print(f"SKIPPED: no {way} here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        prefix, libdir = install(build, tree)
        check_needed(libdir / "libsluice.so")
        check_thread_local(libdir / "libsluice.so")
        programs = with_cmake(tree, prefix, compiler) if way == "cmake" else with_pkg_config(tree, libdir, compiler)
        paths = [str(libdir), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        env = {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}
        said = run(programs / "program", env=env).strip()
        check_footprint(run(programs / "engine_alone", env=env))
        in_c = run(programs / "in_c", env=env).strip() if (programs / "in_c").exists() else IN_C
        plugged = run(programs / "plugin_host", programs / f"lib{PLUGIN}.so", env=env).strip()
    for text, expected in ((said, EXPECTED), (in_c, IN_C), (plugged, PLUGGED)):
        print(text)
        if text != expected:
            sys.exit(f"expected: {expected}")


if __name__ == "__main__":
    main()
