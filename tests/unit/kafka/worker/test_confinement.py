import subprocess
import sys

import pytest


def run(code, *arguments):
    program = f"import sys\nfrom rackspan.kafka.worker.confinement import confine\nconfine(96 << 20, 5)\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stdout.strip(), done.stderr


def landlocked():
    code = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1) >= 1)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


needs_landlock = pytest.mark.skipif(not landlocked(), reason="the kernel has no Landlock")


@needs_landlock
def test_a_token_cannot_be_read(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    code, out, error = run("print(open(sys.argv[1]).read())", token)
    assert code != 0
    assert "secret" not in out
    assert "PermissionError" in error


@needs_landlock
def test_no_file_can_be_written_or_made(tmp_path):
    known = tmp_path / "known"
    known.write_text("")
    for path in (known, tmp_path / "new", "/dev/shm/rackspan-test"):
        code, _, error = run("open(sys.argv[1], 'w')", path)
        assert code != 0, path
        assert "PermissionError" in error, path


@needs_landlock
def test_another_process_can_be_neither_read_nor_signalled():
    code, out, error = run(
        """
import os, signal
for attempt in (lambda: os.kill(os.getppid(), 0), lambda: open(f"/proc/{os.getppid()}/environ").read()):
    try:
        attempt()
    except PermissionError:
        print("refused")
"""
    )
    assert (code, out.split()) == (0, ["refused", "refused"]), error


def test_memory_beyond_the_limit_is_refused_also_to_native_code():
    code, out, error = run(
        """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
print(libc.malloc(ctypes.c_size_t(200 << 20)))
try:
    bytearray(200 << 20)
except MemoryError:
    print("refused")
"""
    )
    assert (code, out.split()) == (0, ["None", "refused"]), error


def test_a_thread_takes_little_of_the_limit():
    code, out, error = run(
        """
import threading
stop = threading.Event()
threads = [threading.Thread(target=stop.wait) for _ in range(150)]
for one in threads:
    one.start()
stop.set()
print(len(threads))
"""
    )
    assert (code, out) == (0, "150"), error


def test_what_python_needs_can_still_be_read():
    code, out, error = run(
        "import json, ssl, socket; print(socket.gethostbyname('localhost'), ssl.OPENSSL_VERSION[:7])"
    )
    assert (code, out) == (0, "127.0.0.1 OpenSSL"), error


def test_the_process_leaves_no_core_and_ends_with_its_parent():
    code, out, error = run(
        """
import ctypes, resource
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal))
print(resource.getrlimit(resource.RLIMIT_CORE)[1], signal.value)
"""
    )
    assert (code, out) == (0, "0 9"), error


def test_the_process_loads_nothing_that_takes_much_of_the_limit():
    code, out, error = run(
        """
import sys
import rackspan.kafka.worker.process, rackspan.kafka.kafka_reassignments
print({"numpy", "kubernetes", "kopf", "prometheus_client"} & sys.modules.keys())
"""
    )
    assert (code, out) == (0, "set()"), error
