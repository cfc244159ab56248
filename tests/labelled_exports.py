"""Write tables of texts and labels as programs and people export them, half without a header.

Unlike those of `surveyed_tables`, these were written with the rule at hand, to be hard for it:
names that no list of names contains, short texts, labels with typing errors, ids, other scripts.
"""

import csv
import io
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from surveyed_tables import DOMAINS, SurveyedTable

Column = tuple[str, list[str]]  # the name, and the values

ODD_TEXT_NAMES: Final = (
    *(
        "Rückmeldung",
        "what_happened",
        "Freitextfeld 3",
        "Q3",
        "remarks",
        "lyrics",
        "abstract",
        "claim",
    ),
    *(
        "Antwort auf Frage 7",
        "x",
        "input",
        "raw",
        "statement",
        "Verbatim (EN)",
        "hypothesis",
        "meaning",
    ),
    *("What is the main reason for your score?", "Please describe the problem in your own words"),
    *("Anything else you would like to tell us?", "Why did you choose this answer:", "paragraph"),
)
ODD_LABEL_NAMES: Final = (
    *(
        "verdict",
        "mood",
        "outcome",
        "bucket",
        "gold",
        "y",
        "annotator_1",
        "Beurteilung",
        "flag",
        "output",
    ),
    *(
        "Do you agree?",
        "Coder A",
        "stance",
        "emotion",
        "genre",
        "Schlagwort",
        "severity",
        "annotation",
    ),
    *(
        "On the whole, how satisfied were you?",
        "final decision",
        "Reason code",
        "Ressort",
        "Etikette",
    ),
)
TYPED: Final = (
    "positve",
    "negativ.",
    "neutrall",
    "??",
    "n.a.",
    "tbd",
    "meh.",
    "dont know",
    "Positive!",
    "both",
    "check",
)


@dataclass(frozen=True)
class Subject:
    """Texts and labels of one kind, which the other module does not have."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    names: tuple[tuple[str, str], ...]  # of the text and of the label


SUBJECTS: Final = (
    Subject(
        (
            "这部电影很好看，推荐大家去看",
            "质量太差了，用了两天就坏了",
            "物流很快，包装也很好。",
            "一般般",
            "客服态度不好，不会再买了！",
            "性价比很高",
        ),
        ("正面", "负面"),
        (("评论", "标签"), ("内容", "情感"), ("text", "label"), ("用户评价", "是否满意")),
    ),
    Subject(
        (
            "Отличный товар, всем советую",
            "Сломался через неделю.",
            "Нормально за свои деньги",
            "Доставка заняла месяц!",
            "Качество хуже, чем на фото",
        ),
        ("хорошо", "плохо", "средне"),
        (("отзыв", "оценка"), ("текст", "категория"), ("Комментарий", "Тональность")),
    ),
    Subject(
        tuple(
            f"{first}{last}"
            for first in ("", "", "cheap ", "best ", "used ", "red ", "small ")
            for last in (
                *("running shoes", "flights", "iphone 12 case", "garden hose 20m", "gift for dad"),
                *("usb c cable", "bikes near me", "coffee grinder", "raincoat", "hotel in rome"),
            )
        ),
        ("fashion", "travel", "electronics", "garden", "gifts"),
        (
            ("query", "vertical"),
            ("search term", "Bucket"),
            ("keyword", "category"),
            ("term", "dept"),
        ),
    ),
    Subject(
        (
            "int main(void) { return 0; }",
            "def f(x): return x + 1",
            "SELECT * FROM users;",
            "console.log('hi')",
            "fn main() {}",
            "print('a', end='')",
        ),
        ("c", "python", "sql", "javascript", "rust"),
        (("snippet", "language"), ("code", "lang")),
    ),
    Subject(
        (
            "@anna so happy for you!! #win",
            "worst. day. ever.",
            "https://t.co/a81 must read",
            "rt if you agree",
            "lmao same",
            "no way this is real??",
        ),
        ("4", "0", "2"),
        (("tweet", "polarity"), ("text", "target"), ("full_text", "sentiment_code")),
    ),
    Subject(
        (
            "How far is it from Denver to Aspen?",
            "What county is Modesto in?",
            "Who was Galileo?",
            "What is an atom?",
            "When did Hawaii become a state?",
        ),
        ("LOC", "HUM", "DESC", "NUM", "ENTY"),
        (("question", "coarse"), ("Question", "Answer type"), ("q", "label-coarse")),
    ),
    Subject(
        (
            "A man is playing a guitar on stage.",
            "Two dogs run through the snow.",
            "The woman sleeps.",
            "Children are in a classroom.",
            "Nobody is outside.",
        ),
        ("entailment", "contradiction", "neutral"),
        (("premise", "gold_label"), ("sentence1", "judgment")),
    ),
    Subject(
        (
            "Aspirin 100mg 1-0-0",
            "Metformin 850 mg twice daily",
            "apply ointment to left knee",
            "no known allergies",
            "BP 140/90, follow up in 2 weeks",
        ),
        ("medication", "finding", "plan"),
        (("entry", "section"), ("Eintrag", "Rubrik")),
    ),
    Subject(
        (
            "Wie lange dauert die Bearbeitung?",
            "Antrag wurde abgelehnt, ich lege Widerspruch ein.",
            "Bitte um Rückruf",
            "Termin verschieben",
            "Unterlagen anbei",
        ),
        ("Anfrage", "Widerspruch", "Termin", "Sonstiges"),
        (("Betreff", "Vorgang"), ("Nachricht", "Kategorie"), ("Anliegen", "Zuständigkeit")),
    ),
    *(
        Subject(
            tuple(
                f"{subject} {remark}" for subject in domain.subjects for remark in domain.remarks
            ),
            domain.labels,
            tuple(
                (text, label) for text in domain.text_headers for label in domain.label_headers[:3]
            ),
        )
        for domain in DOMAINS
    ),
)


def _texts(subject: Subject, num_rows: int, rng: random.Random) -> list[str]:
    endings = rng.choice((("",), ("", "."), ("", ".", "!", " ...", "?")))
    share_of_short = rng.choice((0, 0, 0.05, 0.15))
    short = (
        "ok",
        "None",
        "N/A",
        "good",
        "see above",
        "no idea",
        "Super!",
        "nothing to add",
        "-",
        "1",
    )
    return [
        rng.choice(short)
        if rng.random() < share_of_short
        else rng.choice(subject.texts) + rng.choice(endings)
        for _ in range(num_rows)
    ]


def _labels(subject: Subject, num_rows: int, rng: random.Random) -> list[str]:
    weights = [1 / rank ** rng.choice((0, 1)) for rank in range(1, 1 + len(subject.labels))]
    labels = rng.choices(subject.labels, weights, k=num_rows)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, num_rows // 30))):
        labels[rng.randrange(num_rows)] = rng.choice(TYPED)
    if rng.random() < 0.1:
        labels = [label if rng.random() < 0.9 else "" for label in labels]
    return labels


def _others(num_rows: int, rng: random.Random) -> list[Column]:
    """Return columns that exports have beside the text and its label."""
    rows = range(num_rows)
    start = rng.randrange(10 ** rng.randint(1, 7))
    known: list[Column] = [
        (
            rng.choice(("uuid", "key", "response id")),
            [str(uuid.UUID(int=rng.getrandbits(128))) for _ in rows],
        ),
        (rng.choice(("", "row", "Nr.", "No.", "case number")), [str(start + row) for row in rows]),
        (
            rng.choice(("when", "start time", "Zeitstempel")),
            [f"{1 + row % 28:02}/0{1 + row % 9}/2023 1{row % 10}:0{row % 7}" for row in rows],
        ),
        (rng.choice(("epoch", "t")), [str(1_600_000_000 + rng.randrange(10**7)) for _ in rows]),
        (
            rng.choice(("mail", "E-Mail", "contact")),
            [f"user{rng.randrange(999)}@example.org" for _ in rows],
        ),
        (
            rng.choice(("link", "permalink")),
            [f"https://example.org/p/{rng.randrange(10**6)}" for _ in rows],
        ),
        (
            rng.choice(("Preis", "amount", "weight")),
            [f"{rng.randrange(99)},{rng.randrange(10, 99)}" for _ in rows],
        ),
        (
            rng.choice(("lang", "Sprache", "locale")),
            [rng.choice(("en", "en", "de", "fr")) for _ in rows],
        ),
        (
            rng.choice(("split", "fold", "wave")),
            [rng.choice(("train", "train", "test")) for _ in rows],
        ),
        (
            rng.choice(("Age group", "Altersgruppe")),
            [rng.choice(("18-25", "26-40", "41-65", "65+")) for _ in rows],
        ),
        (
            rng.choice(("Would you recommend us?", "consent given")),
            [rng.choice(("Yes", "No", "")) for _ in rows],
        ),
        (rng.choice(("free", "internal memo", "")), [""] * num_rows),
    ]
    return rng.sample(known, rng.choice((0, 0, 0, 0, 1, 1, 2, 3, 5)))


def _names(subject: Subject, rng: random.Random) -> tuple[str, str]:
    text, label = rng.choice(subject.names)
    if rng.random() < 0.25:
        text = rng.choice(ODD_TEXT_NAMES)
    if rng.random() < 0.25:
        label = rng.choice(ODD_LABEL_NAMES)
    change = rng.choice((str, str, str, str.upper, str.title))
    return change(text), change(label)


def _write(rows: Sequence[Sequence[str]], rng: random.Random) -> tuple[str, str]:
    delimiter = rng.choice((",", ",", ";", "\t", "|"))
    written = io.StringIO()
    quoting = rng.choice(
        (csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)
    )
    csv.writer(
        written, delimiter=delimiter, quoting=quoting, lineterminator=rng.choice(("\n", "\r\n"))
    ).writerows(rows)
    return written.getvalue(), delimiter


def labelled_exports(number: int, seed: int = 37) -> Iterator[SurveyedTable]:
    """Yield tables, with and without a header in turn."""
    rng = random.Random(seed)
    for n in range(number):
        subject, num_rows = rng.choice(SUBJECTS), rng.choice((12, 16, 20, 30, 40, 60))
        text, label = _names(subject, rng)
        columns = [
            (text, _texts(subject, num_rows, rng)),
            (label, _labels(subject, num_rows, rng)),
            *_others(num_rows, rng),
        ]
        rng.shuffle(columns)
        rows = list(zip(*(values for _, values in columns), strict=True))
        has_header = n % 2 == 0
        content, delimiter = _write(
            [tuple(name for name, _ in columns), *rows] if has_header else rows, rng
        )
        yield SurveyedTable(content, delimiter, has_header)
