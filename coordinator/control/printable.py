"""Text that others wrote, such as names of groups and clients, as a terminal may show it."""


def printable(text: str) -> str:
    """Return text on one line that neither steers a terminal nor hides what it is: a line feed as `\\u000a`.

    Characters that show nothing, begin a new line or change the direction of the text become escapes, as on the page
    of the admin port. So no name forges a line of its own, or clears the screen.
    """
    if text.isprintable():
        return text
    return "".join([letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text])
