"""The words of a statement with their exact places, by the lexical rules that Hive and Spark share.

Everything later works on places: an expression reaches Spark as the slice of the text that the user wrote.
The rules are those of ``HiveLexer`` and Spark's ``SqlBaseLexer``: back-quoted names with doubled back-quotes,
strings in either quote with backslash escapes, ``--`` comments (a backslash carries them on), nested
``/* */`` comments, names that begin with a digit. Optimizer hints (``/*+ */``) are passed over like comments.

sqlglot's own tokenizer is not used: it merges words (``TIMESTAMP AS OF``) and, behind SHOW or RENAME, whole
statements into one token, splits ``10L`` into three of the same place, and takes a comment without end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hiveacid.errors import ParseError


class TokenKind(StrEnum):
    """What a token is."""

    WORD = "word"  # unquoted name or keyword
    QUOTED = "quoted"  # `name`
    STRING = "string"  # 'text' or "text"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"  # behind the last one


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its text as written, offsets (``end`` excluded), line and column from 1."""

    kind: TokenKind
    text: str
    start: int
    end: int
    line: int
    column: int

    @property
    def keyword(self) -> str:
        """The upper-case word, the symbol, or '' for names in back-quotes, strings and numbers."""
        if self.kind is TokenKind.WORD:
            return self.text.upper()
        return self.text if self.kind is TokenKind.SYMBOL else ""

    @property
    def name(self) -> str:
        """The text of a name without its back-quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind is TokenKind.QUOTED else self.text


_LEXEME = re.compile(
    r"""
      (?P<blank>    \s+ | --(?:\\\n|[^\r\n])* )
    | (?P<comment>  /\* )
    | (?P<string>   [rR]'[^']*' | [rR]"[^"]*"
                  | '[^'\\]*(?:(?:\\.|'')[^'\\]*)*'
                  | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*" )
    | (?P<quoted>   `(?:[^`]|``)+` )
    | (?P<number>   (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lLsSyYfFdD])?(?!\w) )
    | (?P<word>     \w+ )
    | (?P<open>     ['"`] )
    | (?P<symbol>   <=> | <= | >= | <> | != | == | \|\| | :: | -> | => | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_KINDS = {
    "string": TokenKind.STRING,
    "quoted": TokenKind.QUOTED,
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
    "symbol": TokenKind.SYMBOL,
}


def tokenize(text: str, first_line: int = 1) -> list[Token]:
    """Return the tokens, the last one of kind END.

    Raises ParseError for a string, quoted name or comment without end.
    """
    tokens = list(_scan(text, first_line))
    line = first_line + text.count("\n")
    column = len(text) - text.rfind("\n")
    tokens.append(Token(TokenKind.END, "", len(text), len(text), line, column))
    return tokens


def _scan(text: str, line: int) -> Iterator[Token]:
    at, line_start = 0, 0
    while found := _LEXEME.match(text, at):
        start, end, group = at, found.end(), found.lastgroup or ""
        column = start - line_start + 1
        if group == "comment":
            end = _comment_end(text, start, line, column)
        elif group == "open":
            what = "name in back-quotes" if found.group() == "`" else "string"
            message = f"the {what} that begins here has no end"
            if text.startswith("``", start):
                message = "a name in back-quotes cannot be empty"
            raise ParseError(message, line=line, column=column)
        elif group != "blank":
            yield Token(_KINDS[group], found.group(), start, end, line, column)
        breaks = text.count("\n", start, end)
        if breaks:
            line += breaks
            line_start = text.rfind("\n", start, end) + 1
        at = end


def _comment_end(text: str, start: int, line: int, column: int) -> int:
    """Return the offset behind a comment; comments nest, hints do not."""
    if text.startswith("/*+", start):
        closing = text.find("*/", start)
        depth, end = int(closing < 0), closing + 2
    else:
        depth, end = 0, start
        while found := _COMMENT_EDGE.search(text, end):
            depth += -1 if found.group() == "*/" else 1
            end = found.end()
            if depth == 0:
                break
    if depth:
        message = "the comment that begins here has no end"
        raise ParseError(message, line=line, column=column)
    return end


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([01][0-7]{2})|(.))|(''|\"\")", re.DOTALL)
_SIMPLE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def string_value(token_text: str) -> str:
    r"""Return the value of one string token, by Hive's escapes (``BaseSemanticAnalyzer.unescapeSQLString``).

    ``\n \t \r \b \0 \Z``, octal ``\001``, ``\u0041``, and ``\%``, ``\_`` kept for LIKE; any other
    backslash is dropped. A doubled quote is one quote (Trino, Spark 4), where Hive would drop both.
    """
    if token_text[0] in "rR":
        return token_text[2:-1]
    quote = token_text[0]

    def replace(found: re.Match[str]) -> str:
        code, octal, simple, doubled = found.groups()
        if code or octal:
            return chr(int(code, 16) if code else int(octal, 8))
        if simple:
            return _SIMPLE.get(simple, simple)
        return str(doubled[0] if doubled[0] == quote else doubled)

    value = _ESCAPE.sub(replace, token_text[1:-1])
    # Java's escapes name UTF-16 units: join pairs, and let no lone half get into file names.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mentions(text: str, names: Iterable[str]) -> frozenset[str]:
    """Return those of the names that stand in the text as words or quoted names, not in strings or comments.

    Upper and lower case are the same; the answer is lower case. Raises ParseError as :func:`tokenize`.
    """
    named = {
        token.name.lower() for token in tokenize(text) if token.kind in {TokenKind.WORD, TokenKind.QUOTED}
    }
    return frozenset(name.lower() for name in names) & named


def is_script(tokens: Sequence[Token]) -> bool:
    """Tell whether a text is a script of Spark's: BEGIN and statements, maybe with a label before it."""
    words = [token.keyword for token in tokens[:3]]
    return words[1:] == [":", "BEGIN"] or (words[:1] == ["BEGIN"] and words[1:2] not in ([], [";"]))


def split(script: str) -> list[tuple[str, int]]:
    """Cut a script at its ``;`` into statements, each with the line (from 1) on which it begins.

    Comments around statements and empty statements vanish. Raises ParseError as :func:`tokenize`.
    """
    statements: list[tuple[str, int]] = []
    first: Token | None = None
    end = 0
    for token in tokenize(script):
        if token.kind is TokenKind.END or token.keyword == ";":
            if first is not None:
                statements.append((script[first.start : end], first.line))
            first = None
        else:
            first, end = first or token, token.end
    return statements
