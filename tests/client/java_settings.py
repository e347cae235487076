"""What Java reads from files of properties and from `sasl.jaas.config`, as Kafka's clients have it read.

`python -m tests.client.java_settings` writes `java_settings.json` again: a `java` with a compiler must be there.
"""

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Final

RECORDED: Final = Path(__file__).with_suffix(".json")
PIECES: Final = (
    *"ab", *"ab", "=", ":", " ", "\t", "\f", "\\", "\\\\", "\\\n", "\\\r\n", "\n", "\r", "\r\n", "#", "!", "\\u0041", "\\u00e9",
    "\\n", "\\t", "\\ ", "\\=", "\\:", "\\#", "a=b\n", "\na=b\n", "a=", "b=", "\nb = a", "a b\n", "b : a\n", "\n#a=b\n", "  ", "\\\n  ", "\\\n#", "é", "\x85", "\x1c", '"',
)  # fmt: skip
OPTIONS: Final = (
    ' a="b"', " a='b'", ' a = "b c"', " a=b", " a=b.c-d_e$f", '\n  b="x;y"', ' b="a\\"b"', ' b="\\\\"', ' b="\\t\\n\\q"', " b='\"'",
    ' b="\'"', ' user_bob="=,"', ' a=""', " a=''", ' b="é"', " b='\\''", ' b="\\101"', ' b="\\1019"', ' b="\\777"', ' b="/*x*/"',
)  # fmt: skip
ENDS: Final = (";", " ;", " ; ", ";", ";", ";", "", '"', " a;", " a=;", ' a="b;', " a='b\";")

JAVA: Final = """
import java.io.*;
import java.util.*;

public class Settings {
    static String show(String text) {
        StringBuilder shown = new StringBuilder();
        for (char c : text.toCharArray()) shown.append(String.format("%04x", (int) c));
        return shown + "-";
    }

    static class Found extends Properties {
        StringBuilder line = new StringBuilder("+");

        @Override public synchronized Object put(Object name, Object value) {
            line.append(' ').append(show((String) name)).append(' ').append(show((String) value));
            return null;
        }
    }

    static void readJaas(String text, Found found) throws IOException {  // Kafka: JaasConfig
        StreamTokenizer tokenizer = new StreamTokenizer(new StringReader(text));
        tokenizer.slashSlashComments(true);
        tokenizer.slashStarComments(true);
        for (char c : "-_$".toCharArray()) tokenizer.wordChars(c, c);
        tokenizer.nextToken();
        tokenizer.nextToken();
        while (tokenizer.nextToken() != StreamTokenizer.TT_EOF && tokenizer.ttype != ';') {
            String key = tokenizer.sval;
            if (tokenizer.nextToken() != '=' || tokenizer.nextToken() == StreamTokenizer.TT_EOF || tokenizer.sval == null)
                throw new IllegalArgumentException();
            found.put(key, tokenizer.sval);
        }
        if (tokenizer.ttype != ';') throw new IllegalArgumentException();
    }

    public static void main(String[] args) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = lines.readLine()) != null; ) {
            StringBuilder text = new StringBuilder();
            for (int at = 1; at + 4 <= line.length(); at += 4)
                text.append((char) Integer.parseInt(line.substring(at, at + 4), 16));
            try {
                Found found = new Found();
                if (line.charAt(0) == 'j') readJaas(text.toString(), found);
                else found.load(new StringReader(text.toString()));
                System.out.println(found.line);
            } catch (IllegalArgumentException error) {
                System.out.println("-");
            }
        }
    }
}
"""


def _texts() -> list[tuple[str, str]]:
    """Return files of properties (p) and login modules (j)."""
    dice = random.Random(7)
    files = [("p", "".join(dice.choices(PIECES, k=dice.randint(1, 9)))) for _ in range(700)]
    modules = [
        ("j", "a.B required" + "".join(dice.choices(OPTIONS, k=dice.randint(0, 3))) + dice.choice(ENDS))
        for _ in range(300)
    ]
    return list(dict.fromkeys(files + modules))


def record() -> None:
    texts = _texts()
    lines = "".join(kind + "".join(f"{ord(one):04x}" for one in text) + "\n" for kind, text in texts)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "Settings.java")
        source.write_text(JAVA)
        found = subprocess.run(["java", source], input=lines, capture_output=True, text=True, check=True).stdout
    rows = []
    for (kind, text), line in zip(texts, found.splitlines(), strict=True):
        words = [
            "".join(chr(int(word[at : at + 4], 16)) for at in range(0, len(word) - 1, 4)) for word in line.split()[1:]
        ]
        pairs = list(zip(words[::2], words[1::2], strict=True))
        rows.append(json.dumps([kind, text, pairs if line.startswith("+") else None]))
    RECORDED.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    record()
