"""Load the fixtures where tests run."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Spare the process that only hands out tests, as `-n auto` asks for, the seconds of torch."""
    if not config.getoption("numprocesses", default=None):
        config.pluginmanager.import_plugin("common_fixtures")
