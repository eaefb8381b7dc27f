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
def test_confined_process_cannot_read_a_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    code, out, error = run("print(open(sys.argv[1]).read())", token)
    assert code != 0
    assert "secret" not in out
    assert "PermissionError" in error


@needs_landlock
def test_confined_process_cannot_write_or_create_files(tmp_path):
    known = tmp_path / "known"
    known.write_text("")
    for path in (known, tmp_path / "new", "/dev/shm/rackspan-test"):
        code, _, error = run("open(sys.argv[1], 'w')", path)
        assert code != 0, path
        assert "PermissionError" in error, path


@needs_landlock
def test_confined_process_cannot_read_or_signal_another_process():
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


def test_memory_limit_applies_to_python_and_native_code():
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


def test_150_threads_fit_into_the_memory_limit():
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


def test_confined_process_can_import_modules_and_resolve_localhost():
    code, out, error = run(
        "import json, ssl, socket; print(socket.gethostbyname('localhost'), ssl.OPENSSL_VERSION[:7])"
    )
    assert (code, out) == (0, "127.0.0.1 OpenSSL"), error


def test_confined_process_has_no_core_dump_and_a_parent_death_signal():
    code, out, error = run(
        """
import ctypes, resource
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal))
print(resource.getrlimit(resource.RLIMIT_CORE)[1], signal.value)
"""
    )
    assert (code, out) == (0, "0 9"), error


def test_worker_modules_import_no_large_packages():
    code, out, error = run(
        """
import sys
import rackspan.kafka.worker.process, rackspan.kafka.kafka_reassignments
print({"numpy", "kubernetes", "kopf", "prometheus_client"} & sys.modules.keys())
"""
    )
    assert (code, out) == (0, "set()"), error
