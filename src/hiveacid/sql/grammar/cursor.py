"""`Cursor`: the tokens of one statement and a position; it parses the elements that all statements share."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NoReturn, TypeVar

from hiveacid.core.model import Column
from hiveacid.core.schema.types import parse_type_at
from hiveacid.errors import ParseError, did_you_mean
from hiveacid.spark.parser.lexer import Token, TokenKind, is_script, string_value, tokenize
from hiveacid.sql.statements import (
    SPARK_CATALOG,
    Literal,
    PartitionItem,
    PartitionSpec,
    Properties,
    Slice,
    TableRef,
    table_ref,
)

T = TypeVar("T")

# Words that end a name or an alias; in back-quotes they are names.
RESERVED = frozenset(
    {"AND", "AS", "DELETE", "FROM", "INSERT", "INTO", "MERGE", "NOT", "NULL", "ON", "OR", "PARTITION"}
    | {"SELECT", "SET", "TABLE", "THEN", "UPDATE", "USING", "VALUES", "WHEN", "WHERE", "WITH"}
)
# Words that begin a clause: no alias without AS, or a cut-off DELETE FROM t LIMIT would delete every row.
_NO_ALIAS = RESERVED | {
    *("CLUSTER", "DISTRIBUTE", "FOR", "GROUP", "HAVING", "JOIN", "LIMIT", "OFFSET"),
    *("ORDER", "SORT", "TABLESAMPLE", "TIMESTAMP", "VERSION", "WINDOW"),
}
_PAIRS = {"(": ")", "[": "]"}
_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_NEAR = 0.8  # of a misspelt keyword: COMMIT is not meant by COMMENT
_MAX_DIGITS = 18  # of an integer: enough for every id and count


class Cursor:
    """The tokens of one statement and a position among them. Every failure raises ParseError with its position."""

    def __init__(self, text: str, first_line: int = 1, tokens: Sequence[Token] | None = None) -> None:
        """``tokens``: the tokens of the text, if it is tokenised already."""
        self.text = text
        self.first_line = first_line
        tokens = tokenize(text, first_line) if tokens is None else list(tokens)
        end = tokens.pop()
        while tokens and tokens[-1].keyword == ";":
            end = tokens.pop()
        self._tokens = tokens
        self._end = Token(TokenKind.END, "", end.start, end.start, end.line, end.column)
        self._at = 0
        semicolon = next((token for token in tokens if token.text == ";"), None) if ";" in text else None
        if semicolon is not None and is_script(tokens):
            self.refuse_script(tokens[0])
        if semicolon is not None:
            self.fail("one statement", semicolon)

    # ---- looking

    def ahead(self, count: int = 0) -> Token:
        """Return the token that comes ``count`` after the next one."""
        index = self._at + count
        return self._tokens[index] if index < len(self._tokens) else self._end

    @property
    def next(self) -> Token:
        """The next token."""
        return self.ahead()

    @property
    def at_end(self) -> bool:
        """True at the end of the statement."""
        return self.next.kind is TokenKind.END

    @property
    def last(self) -> Token:
        """The token taken last (at the beginning: the first one)."""
        return self._tokens[min(self._at, len(self._tokens)) - 1] if self._at and self._tokens else self.next

    def sees(self, *words: str) -> bool:
        """Tell whether these keywords or symbols come next, in this order."""
        return all(self.ahead(count).keyword == word for count, word in enumerate(words))

    def sees_any(self, words: frozenset[str]) -> bool:
        """Tell whether one of the keywords comes next."""
        return self.next.keyword in words

    def fail(self, expected: str, token: Token | None = None, known: Iterable[str] = ()) -> NoReturn:
        """Raise ParseError that names ``expected`` and the token found instead; ``known``: words it may be meant for."""
        actual = token or self.next
        excerpt = "the end" if actual.kind is TokenKind.END else actual.text
        excerpt = excerpt if len(excerpt) <= 40 else excerpt[:37] + "..."  # noqa: PLR2004 - enough to recognise it
        self.refuse(
            f"expected {expected}, found {excerpt}{did_you_mean(excerpt, known, similarity=_NEAR)}", actual
        )

    def refuse(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise ParseError with the message, at the token (the next one if none is given)."""
        culprit = token or self.next
        raise ParseError(message, line=culprit.line, column=culprit.column)

    def refuse_script(self, token: Token) -> NoReturn:
        """Raise ParseError for Spark's BEGIN ... END."""
        self.refuse(
            "a script (BEGIN ... END) cannot hold statements on transactional tables: run them one by one; what must be "
            "there together goes between START TRANSACTION and COMMIT",
            token,
        )

    # ---- taking

    def advance(self) -> Token:
        """Take the next token, whatever it is."""
        token = self.next
        self._at += 1
        return token

    def take(self, *words: str) -> bool:
        """Take these keywords or symbols if all of them come next."""
        is_next = self.sees(*words)
        if is_next:
            self._at += len(words)
        return is_next

    def take_one(self, *words: str) -> str:
        """Take one of the keywords and return it; '' if none comes next."""
        return self.advance().keyword if self.next.keyword in words else ""

    def expect(self, *words: str) -> None:
        """Take these keywords or symbols, one after the other."""
        for word in words:
            if self.next.keyword != word:
                self.fail(word if word[0].isalpha() else f"'{word}'")
            self._at += 1

    def expect_one(self, *words: str) -> str:
        """Take one of the keywords and return it."""
        return self.take_one(*words) or self.fail(" or ".join(words))

    def expect_end(self) -> None:
        """Raise unless the statement is over."""
        if not self.at_end:
            self.fail("the end of the statement")

    # ---- names and constants

    def name(self, subject: str) -> str:
        """Take a name; return it in lower case."""
        if not self.next.is_name:
            self.fail(subject)
        return self.advance().name.lower()

    def flexible_name(self, subject: str) -> str:
        """Take a name that may also be in double quotes."""
        if self.next.kind is TokenKind.STRING and self.next.text[0] == '"':
            return self.advance().text[1:-1].replace('""', '"').lower()
        return self.name(subject)

    def database(self) -> str:
        """Take the name of a database, which ``spark_catalog.`` may precede."""
        if self.next.is_name and self.next.name.lower() == SPARK_CATALOG and self.ahead(1).text == ".":
            self._at += 2
        return self.name("a database name")

    def table(self, subject: str = "a table name") -> TableRef:
        """Take ``table`` or ``database.table``; ``spark_catalog.`` may precede both."""
        first = self.next
        ref = table_ref(self.dotted(subject))
        if ref is None:
            self.refuse("a table name has at most two parts, database.table", first)
        return replace(ref, line=first.line, column=first.column)

    def dotted(self, subject: str, *, flexible: bool = False) -> list[str]:
        """Take a name of one or more parts; ``flexible`` as in :meth:`flexible_name`."""
        take_part = self.flexible_name if flexible else self.name
        if self.next.keyword in RESERVED:
            self.fail(subject)
        parts = [take_part(subject)]
        while self.take("."):
            parts.append(take_part(f"the rest of {subject}"))
        return parts

    def alias(self) -> str | None:
        """Take ``[AS] alias`` if there is one."""
        if self.take("AS"):
            return self.name("an alias")
        if self.next.is_name and self.next.keyword not in _NO_ALIAS:
            return self.name("an alias")
        return None

    def string(self, subject: str) -> str:
        """Take a string (adjacent strings are joined) and return its value."""
        parts: list[str] = []
        while self.next.kind is TokenKind.STRING:
            parts.append(string_value(self.advance().text))
        if not parts:
            self.fail(subject)
        return "".join(parts)

    def integer(self, subject: str) -> int:
        """Take a whole number."""
        text = self.next.text
        is_whole = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
        if self.next.kind is not TokenKind.NUMBER or not is_whole:
            self.fail(subject)
        return int(self.advance().text)

    # ---- lists

    def list_of(
        self,
        member: Callable[[], T],
        name: Callable[[T], str] | None = None,
        refusal: str = "{} is given twice in the list",
    ) -> tuple[T, ...]:
        """Take ``(member, ...)``, at least one; two members of one ``name`` are refused with the text ``refusal``."""
        self.expect("(")
        members: list[T] = []
        names: set[str] = set()
        while not members or self.take(","):
            token = self.next
            members.append(member())
            own_name = None if name is None else name(members[-1])
            if own_name in names:
                self.refuse(refusal.format(own_name), token)
            names |= {own_name} if own_name is not None else set()
        if not self.take(")"):
            self.fail("',' or ')'")
        return tuple(members)

    def names(self, subject: str) -> tuple[str, ...]:
        """Take ``(name, ...)``; the same name twice is refused."""
        return self.list_of(lambda: self.name(subject), str)

    def properties(self) -> Properties:
        """Take ``('key'='value', ...)``; sorted by key, the last of equal keys wins."""
        return tuple(sorted(dict(self.list_of(self._property)).items()))

    def _property(self) -> tuple[str, str]:
        key = self.string("a property's name in quotes")
        self.expect("=")
        if self.next.kind is TokenKind.NUMBER or self.next.keyword in {"TRUE", "FALSE"}:
            return key, self.advance().text.lower()
        return key, self.string("a property's value in quotes")

    def column(self) -> Column:
        """Take ``name type [COMMENT 'text']``."""
        name = self.flexible_name("a column name")
        type_text = self.type()
        return Column(name, type_text, self.string("a comment in quotes") if self.take("COMMENT") else None)

    def type(self) -> str:
        """Take a type; return its normal text."""
        token = self.next
        kind, end = parse_type_at(self.text, token.start, self.first_line)
        while not self.at_end and self.next.start < end:
            self._at += 1
        return str(kind)

    # ---- pieces of text

    def rest(self, subject: str) -> Slice:
        """Take everything up to the end; parentheses must match."""
        return self.until(frozenset(), subject)

    def raw_rest(self) -> str:
        """Take everything up to the end unchecked, and return it as written."""
        text = self.text[self.next.start : self._end.start].rstrip()
        self._at = len(self._tokens)
        return text

    def until(self, stops: frozenset[str], subject: str) -> Slice:
        """Take everything up to one of the words or symbols, a closing parenthesis, or the end.

        Only words outside parentheses and of CASE ... END count, not behind a dot, and no FROM of IS DISTINCT FROM. At
        least one token must be there; parentheses inside must match.
        """
        first, last, previous, cases = self.next, self.next, "", 0
        while not self.at_end:
            word = self.next.keyword
            if previous == "." or (previous, word) == ("DISTINCT", "FROM"):
                word = ""
            if word in {")", "]"} or (not cases and word in stops):
                break
            cases += (word == "CASE") - (word == "END" and cases > 0)
            previous, last = word or self.next.text, self.next
            if word in _PAIRS:
                last = self.skip_parentheses()
            else:
                self._at += 1
        if self.next is first:
            self.fail(subject)
        if not stops:
            self.expect_end()
        return self.slice(first, last)

    def skip_parentheses(self) -> Token:
        """Take everything from an opening parenthesis to the matching one; return the latter."""
        brackets: list[str] = []
        while True:
            token = self.advance()
            if token.kind is TokenKind.END:
                self.fail(f"'{brackets[-1]}'", token)
            if token.keyword in _PAIRS:
                brackets.append(_PAIRS[token.keyword])
            elif token.keyword in {")", "]"}:
                if token.keyword != brackets.pop():
                    self.fail("the parenthesis that matches", token)
                if not brackets:
                    return token

    def slice(self, first: Token, last: Token) -> Slice:
        """Return the text from one token to another."""
        begin = bisect_left(self._tokens, first.start, key=attrgetter("start"))
        end = bisect_left(self._tokens, last.start, key=attrgetter("start"))
        return Slice.of_tokens(self.text, self._tokens[begin : end + 1])

    # ---- partitions

    def partition(self, *, dynamic: bool = False, comparisons: bool = False) -> PartitionSpec:
        """Take ``PARTITION (...)`` if it comes next, else return an empty specification."""
        if not self.take("PARTITION"):
            return ()
        return self.list_of(
            lambda: self._partition_item(dynamic=dynamic, comparisons=comparisons),
            None if comparisons else attrgetter("column"),
            "partition column {} is given twice",
        )

    def _partition_item(self, *, dynamic: bool, comparisons: bool) -> PartitionItem:
        token = self.next
        name = self.name("a partition column")
        operator = _COMPARISONS.get(self.next.keyword)
        if operator is None or (operator != "=" and not comparisons):
            if dynamic and self.next.keyword in {",", ")"}:
                return PartitionItem(name, line=token.line, at_column=token.column)
            self.fail("a comparison" if comparisons else "'='")
        self._at += 1
        before = self._at
        expression = self.until(frozenset({","}), "a value")
        literal = _literal(self._tokens[before : self._at])
        return PartitionItem(name, expression, literal, operator, token.line, token.column)


def _literal(tokens: list[Token]) -> Literal | None:
    """Return the tokens as a constant, None if they are not one."""
    kinds = {token.kind for token in tokens}
    first = tokens[0].keyword
    if kinds == {TokenKind.STRING}:
        if any("\\" in token.text or token.text[0] * 2 in token.text[1:-1] for token in tokens):
            return None  # what an escape means depends on Spark's version and escapedStringLiterals
        return Literal("".join(string_value(token.text) for token in tokens), "string")
    if len(tokens) == 1 and first == "NULL":
        return Literal(None, "null")
    if len(tokens) == 1 and first in {"TRUE", "FALSE"}:
        return Literal(first.lower(), "boolean")
    if first in {"DATE", "TIMESTAMP"} and {token.kind for token in tokens[1:]} == {TokenKind.STRING}:
        return Literal("".join(string_value(token.text) for token in tokens[1:]), first.lower())
    sign = tokens[0].text if first in {"-", "+"} else ""
    if len(tokens) == 1 + bool(sign) and tokens[-1].kind is TokenKind.NUMBER:
        return Literal(sign.strip("+") + tokens[-1].text.upper().rstrip("BDLSYF"), "number")
    return None
