"""Web pages that this program makes: HTML, and whether a search engine would like the page.

Most of a page is markup, as on the web: a menu, styles and a script around a few paragraphs. It has
a topic and some of six faults that people are warned of. One with at most one of them counts as
good (label 1), one with three or more as poor (label 0); a few labels are wrong, as those of people
are.
"""

import random
from dataclasses import dataclass, field

TOPICS = {
    "trail running shoes": "grip mud lace heel sole ridge climb cushion terrain stride",
    "sourdough bread": "starter flour crust oven dough crumb proof salt loaf bake",
    "home espresso": "grinder bean crema roast pressure basket milk shot tamper boiler",
    "rain gardens": "soil root drain sedge gravel slope native pond mulch inlet",
    "bike repair": "chain brake hub spoke cable pedal wrench rim saddle gear",
    "bird watching": "heron finch scope marsh song plumage nest flock feeder dawn",
    "solar panels": "roof inverter angle cell shade meter battery tilt output sunlight",
    "watercolor painting": "brush pigment paper wash glaze sketch palette easel edge tone",
    "city travel": "tram museum market ticket hostel bridge harbor map square station",
    "indoor climbing": "hold route harness rope chalk wall grade belay knot balance",
}
VERBS = "choose compare clean test adjust store measure replace prepare check".split()
ADJECTIVES = "steady light narrow gentle reliable quiet deep simple patient careful".split()
EMPTY_TITLES = ("Home", "Untitled document", "Welcome", "New page", "Index")
EMPTY_LINKS = ("click here", "read more", "this link", "here")
FAULTS = ("title", "description", "stuffing", "links", "drift", "headings")
WRONG_LABELS = 0.03
SECTIONS = 2
SENTENCES = 3  # of a section, at most
MENU_ENTRIES = 60


@dataclass
class Pages:
    """texts: HTML. labels: 1 good, 0 poor."""

    texts: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)


def make_pages(count: int, seed: int = 0) -> Pages:
    """As many good pages as poor ones, in random order; the same for the same arguments."""
    draw = random.Random(seed)
    pages = Pages()
    for index in draw.sample(range(count), count):
        is_good = index % 2 == 0
        faults = draw.sample(FAULTS, draw.randint(0, 1) if is_good else draw.randint(3, 4))
        pages.texts.append(make_page(draw, frozenset(faults)))
        is_wrong = draw.random() < WRONG_LABELS
        pages.labels.append(int(is_good != is_wrong))
    return pages


def make_page(draw: random.Random, faults: frozenset[str]) -> str:
    """One page of HTML with these faults."""
    topic = draw.choice(list(TOPICS))
    parts = [_head(draw, topic, faults), "<body>", _menu(draw)]
    for section in range(1, SECTIONS + 1):
        if "headings" not in faults:
            parts.append(f"<h{section}>{_heading(draw, topic)}</h{section}>")
        parts.append(_paragraph(draw, topic, faults))
        parts.append(_link(draw, topic, faults))
    return "\n".join([*parts, "</body></html>"])


def _head(draw, topic, faults):
    title = draw.choice(EMPTY_TITLES) if "title" in faults else _heading(draw, topic)
    about = title if "description" in faults else _sentence(draw, topic, topic)
    style = " ".join(f".{word} {{ margin: {draw.randint(0, 9)}px }}" for word in ADJECTIVES)
    return (
        f"<html><head><title>{title}</title><style>{style}</style>"
        f'<meta name="description" content="{about}"></head>'
    )


def _menu(draw):
    entries = []
    for number in range(MENU_ENTRIES):
        kind, word = draw.choice(ADJECTIVES), draw.choice(VERBS)
        entries.append(f'<li class="{kind}"><a href="/menu/{number}" class="item">{word}</a></li>')
    return "<nav><ul>" + "\n".join(entries) + "</ul></nav><script>open_menu('nav', 1)</script>"


def _heading(draw, topic):
    return f"How to {draw.choice(VERBS)} {topic} for {draw.choice(ADJECTIVES)} days"


def _paragraph(draw, topic, faults):
    sentences = []
    for _ in range(draw.randint(1, SENTENCES)):
        subject = draw.choice(list(TOPICS)) if "drift" in faults else topic
        named = topic if draw.random() < 0.3 else "it"
        sentences.append(_sentence(draw, subject, named))
        if "stuffing" in faults and draw.random() < 0.6:
            sentences.append(f"<b>{topic}</b> {topic}.")
    return f'<p class="{draw.choice(ADJECTIVES)}">{" ".join(sentences)}</p>'


def _sentence(draw, topic, named):
    first, second = draw.sample(TOPICS[topic].split(), 2)
    return (
        f"{draw.choice(VERBS).title()} the {draw.choice(ADJECTIVES)} {first} &amp; "
        f"the {second} of {named}."
    )


def _link(draw, topic, faults):
    text = draw.choice(EMPTY_LINKS) if "links" in faults else _heading(draw, topic).lower()
    return f'<a href="/{topic.replace(" ", "-")}/{draw.randint(1, 99)}" class="link">{text}</a>'
