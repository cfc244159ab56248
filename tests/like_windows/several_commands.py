"""Run several command lines in one process, and write how each ended."""

import contextlib
import io
import json
import shlex
import sys
import traceback


def ran(line: str) -> dict[str, object]:
    """Run a command line; return its exit code and what it wrote."""
    from warmstart.cli.main import main

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="cp1252") for _ in range(2)]
    sys.argv = ["warmstart", *shlex.split(line)]
    code = 0
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
        except BaseException:
            traceback.print_exc()
            code = 1
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode("cp1252", "replace") for stream in streams)
    return {"line": line, "code": code, "out": out, "err": err}


if __name__ == "__main__":  # the processes of a comparison import this file
    sys.stdin.reconfigure(encoding="utf-8")
    results = [ran(line) for line in sys.stdin if line.strip()]
    sys.stdout.write(json.dumps(results, indent=1) + "\n")
    sys.exit(any(result["code"] for result in results))
