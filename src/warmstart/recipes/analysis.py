"""The latent semantic analysis that a pretraining keeps, which comparisons start from."""

from concurrent.futures import BrokenExecutor, Future, wait
from contextlib import suppress
from types import TracebackType
from typing import Self

from warmstart import progress
from warmstart.data.corpus import source_of
from warmstart.errors import WarmstartError
from warmstart.pool import ProcessPool, give_way, hide_script
from warmstart.runs.folder import RunFolder
from warmstart.settings.training import PretrainConfig
from warmstart.tasks.latent_semantics import SPACE_FILE, LatentSpace, documents_of, fit_space

LOOK_S = 0.5  # between looks at whether the process is done
FAILURES = (BrokenExecutor, WarmstartError, OSError, MemoryError)


class Analysis:
    """Analyses the text of a run when it begins: at the end, files may be gone.

    A GPU need not wait: a process beside the training analyses. On a CPU both would want the same
    cores, and the time counts towards `--minutes`.
    """

    def __init__(self, config: PretrainConfig, run: RunFolder) -> None:
        self._config, self._file = config, run.path / SPACE_FILE
        self._pool: ProcessPool | None = None
        self._found: Future[LatentSpace | None] | None = None

    def begin(self, device: str) -> None:
        """Analyse now, or let a process analyse; an earlier part of the run may have done it."""
        if self._file.exists() and not self._config.changed_data:
            return
        if device != "cpu":
            with suppress(AssertionError, OSError, NotImplementedError):  # none can be started here
                self._pool = ProcessPool(1, give_way)
                with hide_script():
                    self._found = self._pool.submit(analyse_text, self._config)
                return
        progress.say("latent semantic analysis of the text, for comparisons")
        self._save(analyse_text(self._config))

    def finish(self) -> None:
        """Save what the process finds; if it failed, analyse here: it must not cost a training."""
        if self._found is None:
            return
        if not self._found.done():
            progress.say("waiting for the latent semantic analysis of the text, for comparisons")
        while not self._found.done():
            wait([self._found], LOOK_S)  # Windows does not interrupt a longer wait
        try:
            self._save(self._found.result())
        except FAILURES:
            try:
                self._save(analyse_text(self._config))
            except FAILURES as problem:
                progress.say(f"warning: no latent semantic analysis of the text is kept: {problem}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process; a run that is interrupted keeps what it has found."""
        if kind and self._found and self._found.done() and not self._file.exists():
            with suppress(*FAILURES):
                self._save(self._found.result())
        if self._pool is not None:
            self._pool.close()

    def _save(self, space: LatentSpace | None) -> None:
        if space is not None:
            space.save(self._file)


def analyse_text(config: PretrainConfig) -> LatentSpace | None:
    """Analyse the files of a pretraining; None: there is too little in them."""
    with progress.silence():  # the files were described when the tokens were prepared
        source = source_of(config.files, config.document, config, config.allow_private_urls)
    return fit_space(documents_of(source))
