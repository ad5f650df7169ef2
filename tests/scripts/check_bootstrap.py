#!/usr/bin/env python3
"""bootstrap on machines that are not here: apt, dpkg, sudo and id are stand-ins that write down what they were asked.

Usage: check_bootstrap.py ROOT
"""
import os
import pathlib
import subprocess
import sys
import tempfile

STANDINS = {
    "dpkg-query": 'grep -qx -e "${@: -1}" "$HERE/installed" && printf installed',
    "apt-get": 'echo "apt-get $*" >>"$HERE/log"; case "$*" in *install*) printf "%s\\n" "$@" >>"$HERE/installed";; esac',
    "apt-cache": 'grep -qx -e "${@: -1}" "$HERE/unknown" && exit 100; exit 0',
    "sudo": 'echo "sudo $1" >>"$HERE/log"; exec "$@"',
    "id": 'echo "$USER_ID"',
}
PLAIN_TOOLS = ["bash", "env", "cat", "mkdir", "dirname", "grep", "printf"]
DEBIAN, UBUNTU, OTHER = "ID=debian\nVERSION_ID=12\n", "ID=ubuntu\nVERSION_ID=24.04\n", "ID=fedora\nPRETTY_NAME=Fedora\n"


class Machine:
    """A folder that is all of PATH, with what is installed there and what the archive does not know."""

    def __init__(self, folder, system, user=0, sudo=True, unknown=()):
        self.folder, self.user = pathlib.Path(folder), user
        for name, text in STANDINS.items():
            if name != "sudo" or sudo:
                self.put(name, "#!/bin/bash\n" + text + "\n")
        for name in PLAIN_TOOLS:
            (self.folder / name).symlink_to(next(p for p in (f"/usr/bin/{name}", f"/bin/{name}") if os.path.exists(p)))
        for name, text in {"installed": "", "log": "", "unknown": "\n".join(unknown), "os": system}.items():
            (self.folder / name).write_text(text)

    def put(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def run(self, root, *arguments):
        environment = {"PATH": str(self.folder), "HERE": str(self.folder), "HOME": str(self.folder / "home"),
                       "USER_ID": str(self.user), "SLUICE_OS_RELEASE": str(self.folder / "os"),
                       "SLUICE_DATA": str(self.folder / "no-data")}
        done = subprocess.run(["/bin/bash", str(root / "bootstrap"), *arguments], env=environment, capture_output=True,
                              text=True)
        log = (self.folder / "log").read_text()
        (self.folder / "log").write_text("")
        return done.returncode, done.stdout + done.stderr, log

    def tools_appear(self):
        for name in ("g++", "meson", "ninja", "pkg-config", "python3", "ccache", "cmake", "valgrind", "clang-format",
                     "clang-format-14"):
            self.put(name, "#!/bin/bash\n")


def expect(good, what, *seen):
    if not good:
        sys.exit(f"{what}: {seen}")


def installs_once(root, folder, system, boost):
    machine = Machine(folder, system, unknown=["dataset-fashion-mnist"])
    status, said, log = machine.run(root)
    expect(status == 0 and boost in log and "install -y" in log and "sudo" not in log, "installs as root", status, said, log)
    expect("libdnnl-dev" in said and "fashion-mnist" in said, "says what it does", said)
    expect("dataset-fashion-mnist" not in log, "does not ask for what the archive lacks", log)
    machine.tools_appear()
    status, said, log = machine.run(root)
    expect((status, said, log) == (0, "", ""), "asks for nothing twice", status, said, log)


def main():
    root = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        installs_once(root, folder, DEBIAN, "libboost1.81-dev")
    with tempfile.TemporaryDirectory() as folder:
        installs_once(root, folder, UBUNTU, "libboost-thread-dev")
    with tempfile.TemporaryDirectory() as folder:
        status, said, log = Machine(folder, DEBIAN, user=1000).run(root)
        expect(status == 0 and "sudo apt-get" in log and "sudo env" in log, "uses sudo", status, said, log)
    with tempfile.TemporaryDirectory() as folder:
        status, said, log = Machine(folder, DEBIAN, user=1000, sudo=False).run(root)
        expect(status == 1 and "neither root nor sudo" in said and log == "", "says why it cannot", status, said, log)
    with tempfile.TemporaryDirectory() as folder:
        status, said, log = Machine(folder, OTHER).run(root)
        expect(status == 0 and "Fedora" in said and log == "", "leaves other systems alone", status, said, log)
        status, said, log = Machine(pathlib.Path(tempfile.mkdtemp(dir=folder)), DEBIAN).run(root, "--frobnicate")
        expect(status == 2 and "--frobnicate" in said and log == "", "refuses unknown flags", status, said, log)
    print("bootstrap: 6 machines")


if __name__ == "__main__":
    main()
