"""A translator and held-back pairs -> BLEU and chrF, alone or against another run.

Chooses nothing; knows nothing about ledgers.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warmstart.data.overlap import fingerprints_of
from warmstart.data.pairs import Pairs, read_aligned, read_pair_table
from warmstart.errors import WarmstartError
from warmstart.evaluation.bleu import paired_test, translation_scores
from warmstart.recipes.translate import open_translator, say_overlong
from warmstart.runs.saved import Source
from warmstart.runtime import choose_runtime
from warmstart.settings.using import EvaluateConfig


def read_test_pairs(config: EvaluateConfig) -> Pairs:
    """Read the pairs to be scored on: two files, or one table."""
    if config.test and (config.source or config.target):
        raise WarmstartError("--test holds both sides: leave out --source and --target")
    for name in ("test_labels", "pieces"):
        if getattr(config, name):
            flag = f"--{name.replace('_', '-')}"
            raise WarmstartError(f"{flag} is for classifiers; {config.run} is a translator")
    if config.columns and not config.test:
        raise WarmstartError("--columns goes with --test, not with plain lines")
    if config.test:
        return read_pair_table(Path(config.test), config.columns)
    if not config.source or not config.target:
        raise WarmstartError("a translator is scored on --source and --target, or a --test table")
    return read_aligned(Path(config.source), Path(config.target))


def translator_scores(config: EvaluateConfig, source: Source) -> dict[str, Any]:
    """Translate held-back sentences and score them."""
    pairs = read_test_pairs(config)
    other = _translations(config, config.against, pairs.sources) if config.against else None
    found = _translations(config, config.run, pairs.sources)
    scores = translation_scores(found, pairs.targets)
    seen = source.texts_seen().contain(fingerprints_of(pairs.sources))
    measured = {"bleu": scores.bleu, "chrf": scores.chrf}
    result: dict[str, Any] = {
        "sentences": len(pairs),
        "skipped": pairs.skipped,
        **{name: one.score for name, one in measured.items()},
        "intervals": {n: {"low": m.low, "high": m.high} for n, m in measured.items()},
        "signatures": {name: one.signature for name, one in measured.items()},
        "beam": config.beam,
        "length_penalty": config.length_penalty,
        "seen_in_training": int(seen.sum()),
    }
    if other is not None:
        tests = [asdict(test) for test in paired_test(other, found, pairs.targets)]
        result["against"] = {"run": config.against, "tests": tests}
    return result


def _translations(config: EvaluateConfig, run: str, sources: Sequence[str]) -> list[str]:
    runtime = choose_runtime(config.device, config.precision, config.threads)
    translating = open_translator(run, runtime, config)
    found = [best[0] for best in translating.translate(sources)]
    say_overlong(sum(one.parts > 1 for one in found))
    return [one.text for one in found]
