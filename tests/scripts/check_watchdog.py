#!/usr/bin/env python3
"""The watchdog of the tests ends what hangs, leaves alone what is slow, and counts what ran: check_watchdog.py PROGRAM.

PROGRAM is restless.cpp with the main of every test. Its limits are seconds here instead of minutes.
"""
import os
import shutil
import signal
import subprocess
import sys
import time

LIMITS = {"SLUICE_HANG_SECONDS": "2", "SLUICE_TURN_SECONDS": "5"}
# Of what must not be ended: a loaded machine may give a program less than 5 % of a core for two seconds, hardly for six.
PATIENT = {"SLUICE_HANG_SECONDS": "6", "SLUICE_TURN_SECONDS": "60"}


def start(*tags, limits=LIMITS):
    return subprocess.Popen([sys.argv[1], ",".join(tags)], env={**os.environ, **limits}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def expect(process, what, status, *texts):
    out, err = process.communicate()
    missing = [text for text in texts if text not in out + err]
    if process.returncode != status or missing:
        sys.exit(f"{what}: status {process.returncode}, wanted {status}; missing {missing} in\n{out}{err}")
    return out + err


def main():
    began = [start("[good]", "[slow]", "[last]", limits=PATIENT), start("[good]", "[hangs]", "[last]"),
             start("[good]", "[turns]", "[last]"), start("[good]", "[crashes]", "[last]"), start("[sleeps]", limits=PATIENT)]
    time.sleep(1)
    began[4].send_signal(signal.SIGSTOP)  # as a machine that sleeps, or has no time for this program
    time.sleep(8)
    began[4].send_signal(signal.SIGCONT)
    expect(began[0], "slow cases", 0, "test cases: 4 passed, 0 failed, 1 skipped")
    said = expect(began[1], "a case that waits for nobody", 1, 'HANG: test case "waits for nobody"', "restless.cpp:",
                  "test cases: 1 passed, 1 failed, 1 skipped")
    if shutil.which("gdb") is None:
        print("no gdb here: stacks are not looked for")
    elif "wait_for_nobody" not in said and "ptrace" not in said:
        sys.exit(f"no stack of the case that waits: {said}")
    expect(began[2], "a case that turns in circles", 1, 'HANG: test case "turns in circles"', "s of CPU time",
           "test cases: 1 passed, 1 failed, 1 skipped")
    expect(began[3], "a case that crashes", -signal.SIGSEGV, "test cases: 1 passed, 1 failed, 1 skipped")
    expect(began[4], "a slow case on a machine that stops", 0, "test cases: 1 passed, 0 failed, 0 skipped")
    expect(start("[children]", limits=PATIENT), "cases whose children compute", 0, "test cases: 2 passed, 0 failed, 0 skipped")
    expect(start("[good]~[good]"), "a filter that nothing matches", 1, "no test case is what was asked for",
           "test cases: 0 passed, 0 failed, 0 skipped")
    print("watchdog: 7 runs")


if __name__ == "__main__":
    main()
