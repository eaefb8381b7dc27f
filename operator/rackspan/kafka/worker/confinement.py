"""The limits of a worker process: memory, files, processor time.

The kernel enforces all limits, even if a response of a hostile Kafka takes over the process. Landlock (Linux 5.13,
`Documentation/userspace-api/landlock.rst`) permits only to read the files of Python and of the system: no writes, no
service account token, no kubeconfig, no memory of the operator. A kernel without Landlock enforces the other limits.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc", "/dev/null", "/dev/urandom")
_THREAD_STACK = 256 * 1024
"""Bytes. librdkafka has a thread for each broker. The default is 8 MiB, which count fully towards the memory limit."""
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
_SCOPES_SINCE, _ALL_SCOPES = 6, 0b11
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""The number of file access rights by Landlock version; 16 since version 5."""


def confine(memory: int, niceness: int) -> None:
    """Limit this process to `memory` bytes of data, and to the other limits of this module. Call before threads start.

    `niceness` is added to the parent's niceness (nice(2)). The kernel kills the process when its parent ends.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(niceness)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    _shrink_thread_stacks()
    _restrict_files(Path(one) for one in (*_SYSTEM, sys.prefix, sys.base_prefix, *sys.path) if one)


def _shrink_thread_stacks() -> None:
    if not hasattr(_libc, "pthread_setattr_default_np"):
        return  # a C library other than glibc, whose stacks are small
    attributes = ctypes.create_string_buffer(256)
    _libc.pthread_attr_init(attributes)
    _libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_THREAD_STACK))
    _libc.pthread_setattr_default_np(attributes)


def _restrict_files(readable: Iterable[Path]) -> None:
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 1:
        return
    handled = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack("QQQ", handled, 0, _ALL_SCOPES) if version >= _SCOPES_SINCE else struct.pack("Q", handled)
    ruleset = _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path in {one.resolve() for one in readable if one.exists()}:
        rights = _READ_FILE | (_READ_DIRECTORY if path.is_dir() else 0)
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
        os.close(opened)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if ruleset < 0 or _libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
        raise OSError(ctypes.get_errno(), "Landlock refuses the rules of a Kafka client's process")
    os.close(ruleset)
