"""From HTML to the text that counts, with a word before each part that says what it is."""

from html.parser import HTMLParser

PARTS = {"title": "title", "h1": "heading", "h2": "heading", "h3": "heading", "a": "link"}
HIDDEN = frozenset({"style", "script", "template", "nav", "footer"})


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.words = []
        self._hidden = 0

    def handle_starttag(self, tag, attrs):
        self._hidden += tag in HIDDEN
        if self._hidden > 0:
            return
        if tag in PARTS:
            self.words.append(f"{PARTS[tag]} :")
        elif tag == "p":
            self.words.append("text :")
        elif tag == "meta" and ("name", "description") in attrs:
            self.words.append(f"description : {dict(attrs).get('content') or ''}")

    def handle_endtag(self, tag):
        self._hidden = max(self._hidden - (tag in HIDDEN), 0)

    def handle_data(self, data):
        if self._hidden == 0:
            self.words.append(data)


def text_of_page(page: str) -> str:
    """The visible text of a page, white space made one blank; text without tags is itself."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return " ".join(" ".join(reader.words).split())
