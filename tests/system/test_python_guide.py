"""The session of docs/python.md, run as it is but with a short pretraining."""

from pathlib import Path

import pytest
from test_documents import ROOT, blocks

pytestmark = pytest.mark.docs


def test_the_session_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    code = "".join(blocks(ROOT / "docs/python.md", "python"))
    quick = {"steps=300": "steps=6, threads=1", "epochs=3": "epochs=1"}
    for setting, other in quick.items():
        assert setting in code
        code = code.replace(setting, other)
    session: dict[str, object] = {}
    exec(code, session)
    assert len(session["suggested"]) == 3  # type: ignore[arg-type]
