"""Write tables as users of a text classifier hold them, half of them without a header.

Written before its author had read how warmstart tells a header from data, and not changed to suit
that rule.
"""

import csv
import io
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

NUM_TABLES: Final = 200


@dataclass(frozen=True)
class SurveyedTable:
    """A table, what separates its cells, and whether its first row names the columns."""

    content: str
    delimiter: str
    has_header: bool


@dataclass(frozen=True)
class Domain:
    """One subject people classify texts of."""

    subjects: tuple[str, ...]
    remarks: tuple[str, ...]
    labels: tuple[str, ...]
    text_headers: tuple[str, ...]
    label_headers: tuple[str, ...]


DOMAINS: Final = (
    Domain(
        subjects=(
            "the battery",
            "the screen",
            "delivery",
            "the charger",
            "this phone",
            "the camera",
            "customer service",
            "the case",
            "sound quality",
        ),
        remarks=(
            "died after two weeks",
            "is better than I expected",
            "arrived broken, had to send it back",
            "does what it says",
            "is great value for the money!!",
            "stopped working",
            "could be worse I guess",
            "was late but works fine",
            "exceeded my expectations",
            "is a total waste of money",
        ),
        labels=("positive", "negative", "neutral"),
        text_headers=(
            "review",
            "text",
            "review_body",
            "Review Text",
            "content",
            "reviewText",
            "verbatim",
            "Customer comment",
        ),
        label_headers=(
            "sentiment",
            "label",
            "Sentiment",
            "class",
            "polarity",
            "overall_sentiment",
            "Label",
        ),
    ),
    Domain(
        subjects=(
            "the room",
            "breakfast",
            "reception",
            "the pool",
            "our stay",
            "the location",
            "parking",
            "wifi",
            "the bathroom",
        ),
        remarks=(
            "was spotless and quiet",
            "smelled of smoke",
            "took forever",
            "was ok for one night",
            "made our holiday",
            "needs a renovation; carpets are stained",
            "cost extra, which nobody had told us",
            "was lovely, we will be back",
            "was closed for repairs",
        ),
        labels=("5", "4", "3", "2", "1"),
        text_headers=(
            "review",
            "What did you like about your stay?",
            "comment",
            "Feedback",
            "guest_comment",
            "Please tell us about your stay",
        ),
        label_headers=(
            "stars",
            "rating",
            "Rating (1-5)",
            "score",
            "How would you rate us?",
            "Overall",
        ),
    ),
    Domain(
        subjects=(
            "invoice 4471",
            "my account",
            "the app",
            "the login page",
            "our VPN",
            "printer on floor 3",
            "the export",
            "two-factor login",
            "my subscription",
        ),
        remarks=(
            "cannot be opened since this morning",
            "shows error 500",
            "was charged twice, please refund",
            "needs to be moved to a new address",
            "is not syncing",
            "keeps crashing after the update",
            "should be cancelled as of next month",
            "asks for a password I never set",
        ),
        labels=("billing", "technical", "account", "cancellation", "how-to", "outage"),
        text_headers=(
            "description",
            "Subject",
            "ticket_text",
            "message",
            "Issue description",
            "body",
            "summary",
        ),
        label_headers=(
            "category",
            "queue",
            "Category",
            "Ticket type",
            "topic",
            "assigned_team",
            "Department",
        ),
    ),
    Domain(
        subjects=(
            "play",
            "turn on",
            "set",
            "what is",
            "remind me about",
            "book",
            "cancel",
            "find",
            "add",
        ),
        remarks=(
            "the kitchen lights",
            "some jazz",
            "an alarm for seven",
            "the weather in oslo tomorrow",
            "a table for four",
            "my dentist appointment",
            "a flight to lisbon on friday",
            "milk to my shopping list",
            "the nearest pharmacy",
        ),
        labels=(
            "play_music",
            "set_alarm",
            "get_weather",
            "book_restaurant",
            "light_on",
            "shopping_list",
            "calendar",
        ),
        text_headers=("utterance", "query", "text", "sentence", "user_input"),
        label_headers=("intent", "label", "intent_name", "Intent", "tag"),
    ),
    Domain(
        subjects=(
            "URGENT!",
            "hey",
            "Congratulations",
            "Hi mum,",
            "Dear customer,",
            "lol",
            "WINNER!!",
            "ok",
            "Reminder:",
        ),
        remarks=(
            "you have won a £1000 gift card, reply CLAIM to 80082",
            "are we still on for tonight?",
            "i'll be there in ten",
            "your parcel is held, pay the fee at the link",
            "dont forget the cake",
            "call 09061701461 now to claim your prize",
            "did you see the match",
            "your account will be closed, verify now",
            "sorry i missed your call :(",
        ),
        labels=("ham", "spam"),
        text_headers=("message", "sms", "text", "Message", "v2", "content"),
        label_headers=("label", "class", "Category", "is_spam", "v1", "type"),
    ),
    Domain(
        subjects=(
            "Central bank",
            "City council",
            "United",
            "Shares of the chip maker",
            "Researchers",
            "The prime minister",
            "A startup",
            "Oil",
            "Champions",
        ),
        remarks=(
            "raises rates by a quarter point",
            "approves new cycling plan",
            "wins the derby in extra time",
            "falls sharply after earnings miss",
            "finds water in old crater",
            "faces a vote of confidence",
            "unveils a foldable laptop",
            "signs striker for record fee",
        ),
        labels=("World", "Sports", "Business", "Sci/Tech"),
        text_headers=("headline", "title", "Title", "article", "headline_text"),
        label_headers=("section", "category", "Class Index", "topic", "desk"),
    ),
    Domain(
        subjects=(
            "Der Kundendienst",
            "Die Lieferung",
            "Das Produkt",
            "Die Verpackung",
            "Die App",
            "Der Preis",
            "Die Hotline",
        ),
        remarks=(
            "war sehr freundlich",
            "kam drei Tage zu spät",
            "ist sein Geld nicht wert",
            "funktioniert einwandfrei",
            "könnte übersichtlicher sein",
            "hat mich enttäuscht",
            "ist in Ordnung",
        ),
        labels=("positiv", "negativ", "neutral"),
        text_headers=(
            "Kommentar",
            "Text",
            "Freitext",
            "Bemerkung",
            "Was hat Ihnen gefallen?",
            "Bewertung",
        ),
        label_headers=("Kategorie", "Stimmung", "Einstufung", "Etikett", "Klasse"),
    ),
    Domain(
        subjects=("Le service", "La livraison", "L'accueil", "Le site", "Le repas", "Ma commande"),
        remarks=(
            "était parfait, merci",
            "est arrivée en retard",
            "laisse à désirer",
            "ne marche plus depuis hier",
            "était correct, sans plus",
            "a été annulée sans explication",
        ),
        labels=("satisfait", "insatisfait", "mitigé"),
        text_headers=(
            "avis",
            "Commentaire",
            "Votre avis",
            "texte",
            "Que pensez-vous de notre service ?",
        ),
        label_headers=("sentiment", "Catégorie", "classe", "étiquette"),
    ),
    Domain(
        subjects=("Patient", "Pt", "72 yo male", "45F", "The patient", "Child, 6y,"),
        remarks=(
            "reports chest pain since yesterday",
            "with cough and fever 38.9",
            "for routine follow-up, no complaints",
            "fell from bicycle; left wrist swollen",
            "with rash on both arms",
            "denies shortness of breath",
            "requests renewal of prescription",
        ),
        labels=("cardiology", "respiratory", "orthopedics", "dermatology", "general"),
        text_headers=("note", "clinical_note", "free_text", "Presenting complaint", "notes"),
        label_headers=("specialty", "dept", "diagnosis_group", "Triage", "target"),
    ),
    Domain(
        subjects=(
            "you",
            "this thread",
            "the mods",
            "everyone here",
            "people like this",
            "that article",
            "op",
        ),
        remarks=(
            "should be ashamed",
            "made my day, thanks",
            "clearly never read the source",
            "deserve better",
            "are a bunch of clowns",
            "got it exactly right",
            "can go jump in a lake",
        ),
        labels=("0", "1"),
        text_headers=("comment_text", "comment", "text", "tweet", "post"),
        label_headers=("toxic", "label", "target", "is_toxic", "hate"),
    ),
    Domain(
        subjects=("I", "My manager", "The team", "Our office", "HR", "Management", "The workload"),
        remarks=(
            "would like more flexible hours",
            "listens and helps",
            "is too small for everyone",
            "never answers emails",
            "feels fair most weeks",
            "has doubled since spring",
            "keeps changing priorities",
        ),
        labels=(
            "Workload",
            "Leadership",
            "Pay and benefits",
            "Facilities",
            "Communication",
            "Other",
        ),
        text_headers=(
            "What could we do better?",
            "Q7. Please explain your answer",
            "If you could change one thing, what would it be?",
            "Any other comments?",
            "Open answer",
            "Q12_TEXT",
        ),
        label_headers=(
            "Theme",
            "Code",
            "Coded theme",
            "Which topic does this concern?",
            "Category",
            "Q12_CODE",
        ),
    ),
    Domain(
        subjects=("Is it", "Can I", "How do I", "Where is", "Why does", "When will", "Who can"),
        remarks=(
            "return this without a receipt?",
            "the toaster make a humming noise?",
            "my refund arrive?",
            "help me with the warranty?",
            "possible to pay by invoice?",
            "the nearest store?",
            "change the delivery date?",
        ),
        labels=("returns", "product", "payment", "delivery", "store"),
        text_headers=("question", "Question", "customer_question", "Frage", "Pregunta"),
        label_headers=("topic", "answer_id", "category", "Thema", "Tema"),
    ),
    Domain(
        subjects=(
            "El producto",
            "La atención",
            "El envío",
            "La talla",
            "El restaurante",
            "La comida",
        ),
        remarks=(
            "llegó roto",
            "es excelente, lo recomiendo",
            "tardó dos semanas",
            "no corresponde con la foto",
            "estaba fría",
            "vale cada centavo",
        ),
        labels=("positivo", "negativo"),
        text_headers=("comentario", "reseña", "texto", "opinión"),
        label_headers=("sentimiento", "etiqueta", "clase", "valoración"),
    ),
    Domain(
        subjects=(
            "COFFEE CORNER",
            "SHELL 1182",
            "AMZN MKTP",
            "RENT APRIL",
            "CITY TRANSIT",
            "SUPERMARKT AG",
            "NETFLIX.COM",
            "PHARMACY 24",
        ),
        remarks=("LONDON GB", "CARD 4410", "REF 99812", "BERLIN", "ONLINE", "AUTOPAY", "*1J2K33"),
        labels=("groceries", "transport", "housing", "leisure", "health"),
        text_headers=("description", "Transaction", "Booking text", "memo", "Payee"),
        label_headers=("category", "Category", "budget", "group"),
    ),
)

NAMES: Final = (
    "anna.k",
    "j_smith",
    "Maria",
    "T. Okafor",
    "liwei",
    "guest",
    "Robert",
    "fatima88",
    "P. Novak",
)
CITIES: Final = ("Leeds", "Lyon", "Graz", "Austin", "Osaka", "Porto", "Accra")
SHORT_ANSWERS: Final = (
    "Fine.",
    "n/a",
    "none",
    "ok",
    "Great",
    "No complaints",
    "-",
    "??",
    "good",
    "nothing",
    "All good!",
    "too expensive",
    "meh",
)


def _sentence(domain: Domain, rng: random.Random) -> str:
    text = f"{rng.choice(domain.subjects)} {rng.choice(domain.remarks)}"
    if rng.random() < 0.35:
        text += f". {rng.choice(domain.subjects)} {rng.choice(domain.remarks)}"
    if rng.random() < 0.12:
        text = rng.choice(SHORT_ANSWERS)
    if rng.random() < 0.1:
        text = text.upper()
    return text + rng.choice(("", "", ".", "!", " :)"))


def _typing_error(label: str, rng: random.Random) -> str:
    kinds: list[Callable[[str], str]] = [
        str.capitalize,
        str.upper,
        lambda word: word + " ",
        lambda word: word[:-1] or word,
        lambda word: word + ".",
        lambda word: word + "?",
        lambda word: word[:1] + word,
    ]
    return rng.choice(kinds)(label)


def _labels(domain: Domain, num_rows: int, rng: random.Random) -> list[str]:
    weights = [rng.uniform(0.3, 3) for _ in domain.labels]
    labels = rng.choices(domain.labels, weights, k=num_rows)
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 2)):
            row = rng.randrange(num_rows)
            labels[row] = rng.choice(
                (_typing_error(labels[row], rng), "unsure", "meh.", "?", "skip")
            )
    return labels


def _dates(num_rows: int, rng: random.Random) -> list[str]:
    style = rng.choice(("%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y", "%Y-%m-%dT%H:%M:%S", "%b %d %Y"))
    first = date(2021, 1, 1) + timedelta(days=rng.randrange(900))
    return [(first + timedelta(days=rng.randrange(200))).strftime(style) for _ in range(num_rows)]


def _ids(num_rows: int, rng: random.Random) -> list[str]:
    first = rng.choice((0, 1, 1000, 583201))
    if rng.random() < 0.35:
        return [
            f"{rng.choice(('R_', 'T-', 'id'))}{rng.getrandbits(40):010x}" for _ in range(num_rows)
        ]
    return [str(first + row) for row in range(num_rows)]


def _extra_columns(num_rows: int, rng: random.Random) -> list[tuple[str, list[str]]]:
    """Return the columns around the text and its label, each with a name people give it."""
    possible = [
        (
            rng.choice(("id", "ID", "", "Unnamed: 0", "ResponseId", "ticket_no", "#")),
            _ids(num_rows, rng),
        ),
        (
            rng.choice(("date", "created_at", "Datum", "Submitted on", "Timestamp")),
            _dates(num_rows, rng),
        ),
        (
            rng.choice(("user", "author", "Name", "agent")),
            [rng.choice(NAMES) for _ in range(num_rows)],
        ),
        (rng.choice(("city", "Location", "branch")), [rng.choice(CITIES) for _ in range(num_rows)]),
        (
            rng.choice(("likes", "n_words", "NPS", "votes")),
            [str(rng.randint(0, 40)) for _ in range(num_rows)],
        ),
        (
            rng.choice(("score", "confidence", "price")),
            [f"{rng.random() * 10:.2f}" for _ in range(num_rows)],
        ),
        (
            rng.choice(("verified", "Is this your first visit?", "answered")),
            [rng.choice(("yes", "no")) for _ in range(num_rows)],
        ),
        (
            rng.choice(("notes", "Remark")),
            ["" if rng.random() < 0.8 else "follow up" for _ in range(num_rows)],
        ),
    ]
    return rng.sample(possible, rng.choice((0, 0, 0, 1, 1, 2, 3, 4)))


def _table(rng: random.Random, has_header: bool) -> SurveyedTable:
    domain = rng.choice(DOMAINS)
    num_rows = rng.choice((6, 8, 10, 15, 20, 30, 40, 60))
    text = (rng.choice(domain.text_headers), [_sentence(domain, rng) for _ in range(num_rows)])
    label = (rng.choice(domain.label_headers), _labels(domain, num_rows, rng))
    columns = [text, label, *_extra_columns(num_rows, rng)]
    if rng.random() < 0.6:
        rng.shuffle(columns)
    delimiter = rng.choice((",", ",", ",", ";", "\t"))
    written = io.StringIO()
    quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer = csv.writer(
        written, delimiter=delimiter, quoting=quoting, lineterminator=rng.choice(("\n", "\r\n"))
    )
    if has_header:
        writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*(values for _, values in columns), strict=True))
    return SurveyedTable(written.getvalue(), delimiter, has_header)


def surveyed_tables() -> Iterator[SurveyedTable]:
    """Yield the tables, with and without a header in turn."""
    rng = random.Random(2026)
    for number in range(NUM_TABLES):
        yield _table(rng, has_header=number % 2 == 0)
