"""Built-in reviews with a rating from 1 to 10: the more praise, the higher."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from warmstart.samples.samples import Review, distinct_reviews, stream_reviews, write_rows
from warmstart.settings.using import Language

LOWEST, HIGHEST = 1.0, 10.0
STEP = 0.9  # that one opinion more adds, or takes away
NOISE = 0.5  # standard deviation of what the text does not say


@dataclass(frozen=True, kw_only=True)
class RatingSizes:
    """The number of reviews in each file."""

    train: int = 1_000
    valid: int = 400
    test: int = 600


@dataclass(frozen=True, kw_only=True)
class RatingFiles:
    """The files that were written: rating, tab, text; with a header."""

    train: Path
    valid: Path
    test: Path


def rate(review: Review, random: Random) -> float:
    """Return the rating that a reviewer gives, with one decimal."""
    middle = (LOWEST + HIGHEST) / 2
    rating = middle + STEP * sum(review.opinions) + random.gauss(0, NOISE)
    return round(min(max(rating, LOWEST), HIGHEST), 1)


def write_ratings(
    folder: Path, seed: int = 0, language: Language = "english", sizes: RatingSizes | None = None
) -> RatingFiles:
    """Write rated reviews to `folder`; none occurs twice."""
    sizes, random = sizes or RatingSizes(), Random(f"ratings {seed}")
    reviews = distinct_reviews(stream_reviews(random), language)

    def write(name: str, part: Iterable[Review]) -> Path:
        rows = ((f"{rate(review, random):.1f}", review.text(language)) for review in part)
        return write_rows(folder / f"ratings-{name}.tsv", ("rating", "text"), rows)

    test, valid, train = (
        write(name, islice(reviews, getattr(sizes, name))) for name in ("test", "valid", "train")
    )
    return RatingFiles(train=train, valid=valid, test=test)
