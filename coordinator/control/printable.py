"""Text that others wrote, such as names of groups and clients, as a terminal may show it."""


def make_printable(text: str) -> str:
    """Return text on one line that neither steers a terminal nor hides what it is: a line feed as `\\u000a`.

    Characters that show nothing, begin a new line or change the direction of the text become escapes, as on the page
    of the admin port. So no name forges a line of its own, or clears the screen. JSON text stays the same JSON.
    """
    if text.isprintable():
        return text
    return "".join([letter if letter.isprintable() else _escape(letter) for letter in text])


def format_span(seconds: float) -> str:
    """Return a time as people say it: `35 s`, `12 min`, `3.5 h`, `2.1 days`."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} s"


def _escape(letter: str) -> str:
    """Return a character as JSON escapes it: as one or two units of UTF-16."""
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
