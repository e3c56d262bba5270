"""The SQL lexer: tokens with their exact offsets, by the lexical rules that Hive and Spark share.

The grammar of statements (`hiveacid.sql.grammar`) and the readers of Spark's conditions and queries use it. An
expression reaches Spark as the slice of the text that the user wrote, so every token knows its offsets.
The rules are those of ``HiveLexer`` and Spark's ``SqlBaseLexer``. Names may begin with a digit; back-quotes are doubled
inside back-quoted names. Strings have either quote and backslash escapes. A backslash continues a ``--`` comment,
and ``/* */`` comments nest. Optimizer hints (``/*+ */``) are skipped like comments.

`tokenize` refuses texts that are larger than a statement may be, or that would grow too much inside Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from hiveacid.errors import ParseError, StatementTooLargeError


class TokenKind(StrEnum):
    """Kind of a token."""

    WORD = "word"  # unquoted name or keyword
    QUOTED = "quoted"  # `name`
    STRING = "string"  # 'text' or "text"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"  # after the last one


MAX_LENGTH, MAX_TOKENS, MAX_DEPTH = 10_000_000, 300_000, 500
"""Limits of a statement: characters, tokens, levels of parentheses and brackets."""
MAX_TYPE_DEPTH = 100
"""Levels of ARRAY, MAP and STRUCT in a type; Spark's parser takes 7 seconds for 300 of them."""
MAX_IDENTIFIER_DEPTH = 3
"""Levels of IDENTIFIER in IDENTIFIER. Spark's parser takes 3 times as long for 3 levels more; 30 would take years."""
MAX_COMMENT_DEPTH = 20
"""Levels of comments in comments. Spark's lexer takes 14 seconds for 500 of them, and all memory for 2,000."""
MAX_GROUPING_SETS = 4096
"""Grouping sets of a statement, PostgreSQL's limit. CUBE of n columns has 2^n, and Spark makes a list of them."""
MAX_COPIES = 5000
"""Copies of common table expressions: Spark puts one for each reference, also into those that refer to others."""


class Token(NamedTuple):
    """A token: its text as written, offsets (``end`` excluded), line and column from 1.

    It is a NamedTuple, because frozen dataclasses would take a third of the time for parsing a statement.
    """

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
    def is_name(self) -> bool:
        """True for words, keywords among them, and for names in back-quotes."""
        return self.kind is TokenKind.WORD or self.kind is TokenKind.QUOTED

    @property
    def name(self) -> str:
        """The text of a name without its back-quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind is TokenKind.QUOTED else self.text


_LEXEME = re.compile(
    r"""
    (?: \s++ | --(?:\\\n|[^\r\n])*+ )*+
    (?:
      (?P<comment>  /\* )
    | (?P<string>   [rR]'[^']*' | [rR]"[^"]*"
                  | '[^'\\]*(?:(?:\\.|'')[^'\\]*)*'
                  | "[^"\\]*(?:(?:\\.|"")[^"\\]*)*" )
    | (?P<quoted>   `(?:[^`]|``)+` )
    | (?P<number>   (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lLsSyYfFdD])?(?!\w) )
    | (?P<word>     \w+ )
    | (?P<open>     ['"`] )
    | (?P<symbol>   <=> | <= | >= | <> | != | == | \|\| | :: | -> | => | . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*(?!\+)|\*/")
_ANY_COMMENT_EDGE = re.compile(r"/\*|\*/")
_NESTING_TYPES = frozenset({"ARRAY", "MAP", "STRUCT"})
_PREFIXES = frozenset({"NOT", "-", "+", "~", "!"})
_KINDS = {
    "string": TokenKind.STRING,
    "quoted": TokenKind.QUOTED,
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
    "symbol": TokenKind.SYMBOL,
    "open": TokenKind.SYMBOL,
}


def tokenize(text: str, first_line: int = 1) -> list[Token]:
    """Return the tokens, the last one of kind END.

    Raises ParseError for a string, quoted name or comment without end; StatementTooLargeError for a text that is
    larger than one statement may be.
    """
    if len(text) > MAX_LENGTH:
        message = (
            f"the statement has more than {MAX_LENGTH} characters: load the rows from files or a DataFrame"
        )
        raise StatementTooLargeError(message, line=first_line, column=1)
    try:
        tokens = list(islice(scan(text, first_line, strict=True), MAX_TOKENS + 1))
    except ParseError:
        _check_comments(text, first_line)  # in a native session Spark gets the text nevertheless
        raise
    if len(tokens) > MAX_TOKENS:
        message = f"the statement has more than {MAX_TOKENS} words: load the rows from files or a DataFrame"
        raise StatementTooLargeError(message, line=tokens[-1].line, column=tokens[-1].column)
    _check_depth(tokens)
    require_bounded_growth(tokens)
    tokens.append(end_token(text, first_line))
    if "/*+" in text:  # inside a hint Spark reads comments and strings, which are skipped here
        _check_comments(text, first_line)
    elif "/*" in text:
        end = 0
        for token in tokens:
            _check_comments(text, first_line, end, token.start)
            end = token.end
    return tokens


def end_token(text: str, first_line: int = 1) -> Token:
    """Return the token of kind END after a text."""
    line, column = first_line + text.count("\n"), len(text) - text.rfind("\n")
    return Token(TokenKind.END, "", len(text), len(text), line, column)


def moved_to_start(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return tokens (at least one) with offsets, lines and columns relative to the first of them."""
    _, _, start, _, line, column = tokens[0]
    if (start, line, column) == (0, 1, 1):
        return tokens
    return [
        Token(
            token.kind,
            token.text,
            token.start - start,
            token.end - start,
            token.line - line + 1,
            token.column - (column - 1 if token.line == line else 0),
        )
        for token in tokens
    ]


def _check_depth(tokens: Iterable[Token]) -> None:
    """Refuse nesting that would overflow the stack of Spark's parser, which recurses for each level."""
    open_parentheses = open_cases = open_types = prefixes = arrows = 0
    identifiers: list[int] = []  # levels of parentheses in those of IDENTIFIER clauses
    before = two_before = ""
    for token in tokens:
        word = token.text if len(token.text) == 1 else token.text.upper()
        open_parentheses += (word in {"(", "["}) - (word in {")", "]"})
        if word == "(" and before == "IDENTIFIER":
            identifiers.append(open_parentheses)
        while identifiers and open_parentheses < identifiers[-1]:
            identifiers.pop()
        open_cases = max(0, open_cases + (word == "CASE") - (word == "END"))
        open_types = max(0, open_types + (word == "<" and before in _NESTING_TYPES) - (word == ">"))
        prefixes = prefixes + 1 if word in _PREFIXES else 0
        if word == "->":
            arrows = arrows + 1 if two_before == "->" else 1
        before, two_before = word, before
        too_deep = max(open_parentheses, open_cases, prefixes, arrows) > MAX_DEPTH
        if too_deep or open_types > MAX_TYPE_DEPTH or len(identifiers) > MAX_IDENTIFIER_DEPTH:
            message = (
                f"parentheses, CASE, ->, or signs and NOT, are nested more than {MAX_DEPTH} levels deep, types more "
                f"than {MAX_TYPE_DEPTH}, or IDENTIFIER more than {MAX_IDENTIFIER_DEPTH}"
            )
            raise StatementTooLargeError(message, line=token.line, column=token.column)


def _check_comments(text: str, first_line: int, start: int = 0, end: int | None = None) -> None:
    """Refuse comments in comments in comments, wherever they are between two offsets: also in strings."""
    depth = 0
    for edge in _ANY_COMMENT_EDGE.finditer(text, start, len(text) if end is None else end):
        depth = max(0, depth - 1) if edge.group() == "*/" else depth + 1
        if depth > MAX_COMMENT_DEPTH:
            at = edge.start()
            message = f"comments are nested more than {MAX_COMMENT_DEPTH} levels deep"
            line, column = first_line + text.count("\n", 0, at), at - text.rfind("\n", 0, at)
            raise StatementTooLargeError(message, line=line, column=column)


def scan(text: str, line: int = 1, *, strict: bool = False) -> Iterator[Token]:
    """Yield the tokens of a text that begins on ``line``, without limits and without the token of kind END.

    A quote without an end is a symbol, and a comment without an end reaches to the end of the text. With ``strict``
    both raise ParseError.
    """
    at, line_start, line_end = 0, 0, text.find("\n")
    while found := _LEXEME.match(text, at):
        group = found.lastgroup or ""
        start, end = found.span(group)
        while 0 <= line_end < start:
            line, line_start = line + 1, line_end + 1
            line_end = text.find("\n", line_start)
        column = start - line_start + 1
        if group == "comment":
            comment_end = _comment_end(text, start)
            if strict and comment_end is None:
                message = "the comment that begins here has no end"
                raise ParseError(message, line=line, column=column)
            end = len(text) if comment_end is None else comment_end
        elif group == "open" and strict:
            what = "name in back-quotes" if text[start] == "`" else "string"
            message = f"the {what} that begins here has no end"
            if text.startswith("``", start):
                message = "a name in back-quotes cannot be empty"
            raise ParseError(message, line=line, column=column)
        else:
            yield Token(_KINDS[group], text[start:end], start, end, line, column)
        at = end


def _comment_end(text: str, start: int) -> int | None:
    """Return the offset after a comment, None if it has no end; comments nest, hints do not."""
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
    return None if depth else end


_ESCAPE = re.compile(
    r"""\\(?:u([0-9a-fA-F]{4})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})|([01][0-7]{2})|(.))|(''|"")""",
    re.DOTALL,
)
_SIMPLE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def string_value(token_text: str) -> str:
    r"""Return the value of one string token, by Hive's escapes (``BaseSemanticAnalyzer.unescapeSQLString``).

    ``\n \t \r \b \0 \Z``, octal ``\001``, ``\u0041``, Spark's ``\U0001F600``, and ``\%``, ``\_`` kept for LIKE; any other
    backslash is dropped. A doubled quote is one quote (Trino, Spark 4), where Hive would drop both.
    """
    if token_text[0] in "rR":
        return token_text[2:-1]
    quote = token_text[0]

    def replace(found: re.Match[str]) -> str:
        unit, point, octal, simple, doubled = found.groups()
        code = unit or point
        if code or octal:
            return chr(int(code, 16) if code else int(octal, 8))
        if simple:
            return _SIMPLE.get(simple, simple)
        return str(doubled[0] if doubled[0] == quote else doubled)

    value = _ESCAPE.sub(replace, token_text[1:-1])
    # Java's escapes name UTF-16 units: join pairs, and let no lone half get into file names.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mentions(tokens: Iterable[Token], names: Iterable[str]) -> frozenset[str]:
    """Return those of the names that are words or quoted names of a text, without regard to case, in lower case."""
    named = {token.name.lower() for token in tokens if token.is_name}
    return frozenset(name.lower() for name in names) & named


def is_script(tokens: Sequence[Token]) -> bool:
    """Tell whether a text is a Spark SQL script: BEGIN and statements, with an optional label before it."""
    words = [token.keyword for token in tokens[:3]]
    return words[1:] == [":", "BEGIN"] or (words[:1] == ["BEGIN"] and words[1:2] not in ([], [";"]))


def split(script: str) -> list[tuple[str, int]]:
    """Cut a script at its ``;`` into statements, each with the line (from 1) on which it begins.

    Comments around statements and empty statements vanish. Raises ParseError as :func:`tokenize`.
    """
    statements: list[tuple[str, int]] = []
    first: Token | None = None
    end = 0
    for token in scan(script, strict=True):
        if token.keyword == ";":
            if first is not None:
                statements.append((script[first.start : end], first.line))
            first = None
        else:
            first, end = first or token, token.end
    if first is not None:
        statements.append((script[first.start : end], first.line))
    return statements


# Growth inside Spark: grouping sets, and copies of common table expressions. A text of some hundred bytes can fill the memory
# that all sessions of a process share. Spark's parser itself expands CUBE inside GROUPING SETS, so the words of the text are
# counted, not the nodes of a plan.
_WORDS = frozenset({"CUBE", "ROLLUP", "GROUPING", "WITH"})
_MANY = 64  # columns of a CUBE: 2^64 is too many, and more digits say nothing
_BEHIND_TABLES = frozenset(
    {"SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "SET"}
)


@dataclass
class _Level:
    """Text between two parentheses. ``common_table``: its name, if it is the query of one."""

    kind: str = ""  # CUBE, ROLLUP or SETS
    common_table: str = ""
    names_tables: bool = False  # inside FROM
    in_group_by: bool = False
    elements: int = 1  # of the list between the parentheses, or of GROUP BY
    sets: int = 1  # of this GROUP BY: the product of its CUBE, ROLLUP and GROUPING SETS
    more_sets: int = 0  # of those inside GROUPING SETS, which count as one element each
    copies: int = 0
    name_before_list: str = ""  # ``a`` of ``a (x, y) AS (SELECT …)``


@dataclass
class _Growth:
    levels: list[_Level] = field(default_factory=lambda: [_Level()])
    sets: int = 0
    copies_of: dict[str, int] = field(default_factory=dict)

    def open(self, tokens: Sequence[Token], index: int, *, expects_table: bool) -> None:
        before, two_before = _word(tokens, index - 1), _word(tokens, index - 2)
        level = _Level(names_tables=expects_table)
        if before in {"CUBE", "ROLLUP"} or (before, two_before) == ("SETS", "GROUPING"):
            level.kind = before
        elif before == "AS" and two_before == ")":
            level.common_table = self.levels[-1].name_before_list
        elif before == "AS" and index > 1:
            level.common_table = tokens[index - 2].name.lower()
        if index and tokens[index - 1].is_name:
            self.levels[-1].name_before_list = tokens[index - 1].name.lower()
        self.levels.append(level)

    def close(self) -> None:
        if len(self.levels) == 1:
            return
        level, outer = self.levels.pop(), self.levels[-1]
        if level.kind:
            self.add_sets(_sets(level), outer)
        if level.common_table:
            self.copies_of[level.common_table] = level.copies
        else:
            outer.copies += level.copies

    def add_sets(self, sets: int, level: _Level) -> None:
        if level.kind == "SETS":
            level.more_sets += sets - 1
            return
        self.sets += level.sets * (sets - 1)
        level.sets *= sets


def _sets(level: _Level) -> int:
    if level.kind == "CUBE":
        return 1 << min(level.elements, _MANY)
    return level.elements + (1 if level.kind == "ROLLUP" else level.more_sets)


def require_bounded_growth(tokens: Sequence[Token]) -> None:
    """Raise StatementTooLargeError for too many grouping sets, or copies of common table expressions."""
    if _WORDS.isdisjoint(token.keyword for token in tokens):
        return
    growth = _Growth()
    before = ""
    for index, token in enumerate(tokens):
        word, level = token.keyword, growth.levels[-1]
        expects_table = before in {"FROM", "JOIN", "TABLE"} or (before in {",", "("} and level.names_tables)
        if word == "(":
            growth.open(tokens, index, expects_table=expects_table)
        elif word == ")":
            growth.close()
        elif word == ",":
            level.elements += 1
        elif word == "CUBE" and before == "WITH" and level.in_group_by:
            growth.add_sets(1 << min(level.elements, _MANY), level)
        elif expects_table and token.is_name and _word(tokens, index + 1) not in {".", "("}:
            level.copies += _copies(growth, token)
        if word in _BEHIND_TABLES:
            level.names_tables = False
        elif word in {"FROM", "JOIN"}:
            level.names_tables = True
        if word in {"GROUP", "SELECT"}:
            level.in_group_by, level.elements, level.sets = word == "GROUP", 1, 1
        before = word
        _require_few(growth, level, token)


def _copies(growth: _Growth, token: Token) -> int:
    copies = growth.copies_of.get(token.name.lower())
    return 0 if copies is None else 1 + copies


def _require_few(growth: _Growth, level: _Level, token: Token) -> None:
    if growth.sets > MAX_GROUPING_SETS:
        message = (
            f"the statement has more than {MAX_GROUPING_SETS} grouping sets (CUBE of n columns has 2^n): group by fewer columns, "
            "or write the GROUPING SETS that you need"
        )
        raise StatementTooLargeError(message, line=token.line, column=token.column)
    if level.copies > MAX_COPIES:
        message = (
            f"common table expressions that refer to others would be copied more than {MAX_COPIES} times, because Spark puts a "
            "copy for each reference: write the rows of one of them into a table, and read that"
        )
        raise StatementTooLargeError(message, line=token.line, column=token.column)


def _word(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].keyword if 0 <= index < len(tokens) else ""
