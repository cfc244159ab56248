"""Print docs/licences.md: the licence of every package in an environment that has warmstart alone.

python .ci/licences.py FOLDER    # with the environments `used` and `tool`, which has pip-licenses
"""

import json
import subprocess
import sys
from pathlib import Path

TOOLS = {"pip", "setuptools", "warmstart"}  # of every environment, and this package
HEAD = """\
# Licences of the dependencies

warmstart itself is under the [MIT licence](https://spdx.org/licenses/MIT.html). `make licences`
writes this table of the packages that an installation without extras brings, in the pinned
versions, from what each package declares (`pip-licenses`).

| package | version | licence |
|---|---|---|
"""


def main() -> None:
    """Ask pip-licenses about the environment, and print its answer as a page."""
    folder = Path(sys.argv[1])
    tool, python = folder / "tool/bin/pip-licenses", folder / "used/bin/python"
    command = [str(tool), f"--python={python}", "--format=json", "--from=mixed"]
    packages = json.loads(subprocess.check_output(command, text=True))
    rows = [
        f"| {package['Name']} | {package['Version']} | {package['License']} |"
        for package in sorted(packages, key=lambda package: package["Name"].lower())
        if package["Name"] not in TOOLS
    ]
    sys.stdout.write(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
