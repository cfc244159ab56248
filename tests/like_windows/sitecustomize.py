"""Make this Python as poor for warmstart as the one of Windows is, as far as Linux can pretend.

Python imports this module when it starts, also in every process that a command starts. Modules and
functions of Unix alone are hidden from the package; libraries, which are built for Linux, see them.
Folders cannot be opened; what is open can be neither replaced nor deleted; a folder is never
renamed onto another; text without an encoding is refused.
"""

import builtins
import errno
import os
import select
import signal
import sys
import warnings

HIDDEN = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline")
LINUX_TEMPORARY = ("tempfile", "multiprocessing.heap")  # unlink what they keep open, by design
SIGNALS = ("HUP", "USR1", "USR2", "KILL", "QUIT", "ALRM", "PIPE", "CHLD", "XFSZ", "WINCH", "STOP")
NAMES = {
    os: (
        *("fork", "forkpty", "sysconf", "getuid", "geteuid", "getgid", "getegid", "setsid"),
        *("killpg", "getpgid", "nice", "mkfifo", "uname", "statvfs", "fchmod", "fchown", "chown"),
        *("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "sched_getaffinity"),
        *("register_at_fork", "getloadavg", "pread", "pwrite", "posix_fallocate", "posix_spawn"),
    ),
    signal: (
        *(f"SIG{name}" for name in SIGNALS),
        *("pthread_sigmask", "pthread_kill", "setitimer", "alarm", "sigwait", "siginterrupt"),
    ),
    select: ("poll", "epoll"),
}


def _is_ours(scope):
    return str((scope or {}).get("__name__")).split(".")[0] == "warmstart"


def hide(module, names):
    """Let a module have some of its names for libraries alone."""
    hidden = {name: getattr(module, name) for name in names if hasattr(module, name)}

    def look_up(name):
        if name not in hidden or _is_ours(sys._getframe(1).f_globals):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return hidden[name]

    for name in hidden:
        delattr(module, name)
    module.__getattr__ = look_up


def import_module(name, scope=None, *arguments, _import=builtins.__import__, **named):
    if name in HIDDEN and _is_ours(scope):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _import(name, scope, *arguments, **named)


builtins.__import__ = import_module
for _module, _names in NAMES.items():
    hide(_module, _names)
os.supports_dir_fd = set()

_open, _rename, _replace, _unlink = os.open, os.rename, os.replace, os.unlink


def _is_open(path):
    """Tell whether this process has a file open or mapped, or one in a folder."""
    real = os.path.realpath(path)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = [line[73:].strip() for line in maps]
    for handle in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{handle}"))
        except OSError:
            continue
    return any(used == real or used.startswith(real + "/") for used in paths)


def _refuse_open(*paths):
    for path in paths:
        if _is_open(path):
            raise PermissionError(errno.EACCES, "The file is used by another process", str(path))


def open_file(path, flags, mode=0o777, *, dir_fd=None):
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    return _open(path, flags, mode)


def rename(path, new, *, src_dir_fd=None, dst_dir_fd=None):
    _refuse_open(path)
    if os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, "Cannot create a file when it exists", str(new))
    _rename(path, new)


def replace(path, new, *, src_dir_fd=None, dst_dir_fd=None):
    _refuse_open(path, new)
    _replace(path, new)


def unlink(path, *, dir_fd=None):
    if sys._getframe(1).f_globals["__name__"] not in LINUX_TEMPORARY:
        _refuse_open(path)
    _unlink(path)


os.open, os.rename, os.replace, os.unlink, os.remove = open_file, rename, replace, unlink, unlink
warnings.filterwarnings("error", category=EncodingWarning, module=r"warmstart\b")
