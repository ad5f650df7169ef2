#!/usr/bin/env python3
"""The library alone needs nothing that only samples and tests use: check_library_alone.py ROOT.

Configures where pkg-config knows zlib and no other package, and CMake finds none: what is built then, what is said about
the rest, and that who asks for the rest is told what is missing.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOMS = {"sluice_engine", "sluice_storage", "sluice_ndarray", "sluice_operator", "sluice_gluon"}
HEADERS = {"fused_headers"}  # kernel headers that the library carries as text, for what it compiles at run time
VECTORS = {"sluice_ndarray_simd", "sluice_simd"}  # parts of ndarray and operator that are compiled for several instruction sets


def configure(root, build, env, *options):
    command = ["meson", "setup", str(build), root, "-Dcuda=disabled", "--native-file", str(build.parent / "native.ini"), *options]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)


def main():
    root = sys.argv[1]
    where = subprocess.run(["pkg-config", "--variable=pcfiledir", "zlib"], capture_output=True, text=True)
    if where.returncode != 0:
        print("SKIPPED: pkg-config knows no zlib")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(pathlib.Path(where.stdout.strip()) / "zlib.pc", folder)
        (folder / "native.ini").write_text("[binaries]\ncmake = 'false'\n")
        env = {**os.environ, "PKG_CONFIG_LIBDIR": name}
        env.pop("PKG_CONFIG_PATH", None)
        bare = configure(root, folder / "bare", env)
        if bare.returncode != 0:
            sys.exit(f"the library alone cannot be configured:\n{bare.stdout}{bare.stderr}")
        for what in ("the samples are left out: they need CLI11", "the tests are left out: they need Catch2"):
            if what not in bare.stdout:
                sys.exit(f"'{what}' is not said:\n{bare.stdout}")
        targets = json.loads(subprocess.check_output(["meson", "introspect", str(folder / "bare"), "--targets"]))
        if {target["name"] for target in targets if target["type"] != "run"} != ROOMS | VECTORS | HEADERS | {"sluice"}:
            sys.exit("built would be: " + " ".join(target["name"] for target in targets))
        for option, missing in (("tests", "catch2"), ("samples", "CLI11")):
            asked = configure(root, folder / option, env, f"-D{option}=enabled")
            if asked.returncode == 0 or missing not in asked.stdout + asked.stderr:
                sys.exit(f"-D{option}=enabled without {missing}:\n{asked.stdout}{asked.stderr}")


if __name__ == "__main__":
    main()
