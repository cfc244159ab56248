"""The version of the package, without importing anything heavy."""

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """Return the installed version, or `source` when run from a checkout."""
    try:
        return version("warmstart")
    except PackageNotFoundError:
        return "source"
