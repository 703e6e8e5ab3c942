"""The conformance driver understands the steps of bindings/conformance/README.md (its cases are run from there)."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import zlib

STEPS = """hello
nonsense
open p producer unreliable
set p packet_octets_max 8801
get p manifest
bind p /lab/driver
publish p /lab/driver/x @70000:9 version=3
open c consumer reliable
set c lifetime_ms 20000
fetch c /lab/driver/x
bind c /lab/driver
fetch c /lab/driver/x
fork fetch c /lab/driver/x
fork get c congestion
stat c /lab/driver/x
read c /lab/driver/x 3 5
send c /lab/driver/ask =2+2
ready p 20000
recv p
reply p =4
recv c
try-recv c
close c
close c
reset"""

CONTENT = bytes((9 + i + 7 * (i // 256) + 13 * (i // 65536)) % 256 for i in range(70_000))


def result(content: bytes) -> str:
    return f"{len(content)} {zlib.crc32(content):08x}"


ANSWERS = f"""ok python fork,whole
unknown there is no such step here
ok
error EINVAL
ok sha256
ok
ok /lab/driver/x/v=3 9
ok
ok
unknown it is not bound
ok
ok {result(CONTENT)}
error EBADFD
error EBADFD
ok 70000 9
ok {result(CONTENT[3:8])}
ok
ok yes
ok /lab/driver/ask {result(b'2+2')}
ok
ok /lab/driver/ask/... {result(b'4')}
error EAGAIN
ok
error EBADF
ok"""


def test_the_driver_answers_each_step_with_one_line() -> None:
    driver = pathlib.Path(__file__).parent / "driver.py"
    done = subprocess.run([sys.executable, driver], input=STEPS, capture_output=True, text=True, timeout=300, check=True)
    answers = done.stdout.splitlines()
    expected = ANSWERS.splitlines()
    assert len(answers) == len(expected) == len(STEPS.splitlines()), done.stdout + done.stderr
    for step, answer, wanted in zip(STEPS.splitlines(), answers, expected):
        if "..." in wanted:
            before, after = wanted.split("...")
            assert answer.startswith(before) and answer.endswith(after), step
        else:
            assert answer == wanted, step
