"""How documents and docstrings are written: sentence length, unwanted words (``words.toml``), first lines."""

from __future__ import annotations

import re
import tomllib
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from prose import MOST_WORDS, docstring_sentences, docstrings, markdown_sentences
from sources import ROOT, python_files, tracked_files

HERE = Path(__file__).parent
DOCUMENTS = tuple(
    name
    for name in tracked_files()
    if name.endswith(".md") and not name.startswith(("tests/", "requirements/"))
)
INDIRECT = re.compile(r"(What|Which|Where|Who|Whose|Whether|How|When|Why)\b")
WORDS = tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))["word"]
UNWANTED = [(re.compile(word["pattern"], re.IGNORECASE), word["better"]) for word in WORDS]


def unwanted(text: str) -> list[str]:
    """Return the unwanted words in a text, each with the better term."""
    return [f"{match[0]!r}: {better}" for pattern, better in UNWANTED for match in pattern.finditer(text)]


def warn_of(findings: list[str]) -> None:
    """Warn of prose to look at. A warning, because a rule about prose can ask for worse prose."""
    if findings:
        warnings.warn("\n".join(["", *findings]), stacklevel=2)


@cache
def docstring_findings() -> dict[str, list[str]]:
    """Return rule -> findings."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in python_files("src/"):
        for sentence in docstring_sentences(file):
            where = f"{file.name}:{sentence.line}"
            if sentence.words > MOST_WORDS:
                found["long sentences"].append(f"{where} {sentence.words} words")
            found["words"] += [f"{where} {word}" for word in unwanted(sentence.text)]
        found["first lines"] += [
            f"{file.name}:{line} {text.splitlines()[0]}"
            for line, text in docstrings(file)
            if INDIRECT.match(text)
        ]
    return found


def long_sentences(name: str) -> list[str]:
    """Return the sentences of a document that have too many words."""
    return [
        f"{name}:{sentence.line} {sentence.words} words: {sentence.text}"
        for sentence in markdown_sentences((ROOT / name).read_text(encoding="utf-8"))
        if sentence.words > MOST_WORDS
    ]


def unwanted_words(name: str) -> list[str]:
    """Return the unwanted words of a document."""
    return [
        f"{name}:{sentence.line} {word}"
        for sentence in markdown_sentences((ROOT / name).read_text(encoding="utf-8"))
        for word in unwanted(sentence.text)
    ]


DOCUMENT_RULES = {"long sentences": long_sentences, "words": unwanted_words}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("rule", DOCUMENT_RULES)
def test_documents_keep_the_rules(rule: str, name: str) -> None:
    warn_of(DOCUMENT_RULES[rule](name))


@pytest.mark.parametrize("rule", ["long sentences", "words", "first lines"])
def test_docstrings_keep_the_rules(rule: str) -> None:
    warn_of(docstring_findings()[rule])


def test_the_list_of_words_gives_reasons() -> None:
    assert [word for word in WORDS if not (word["reason"] and word["better"])] == []


def test_sentences_are_counted_as_people_read_them() -> None:
    text = """# A title
One [link](x.md) and `some code` here. Version 4.0.1 is no end; e.g. this.

- an item
  that goes on
- another

| a cell | another |
```python
ignored = 1
```
    ignored code
"""
    sentences = [(sentence.line, sentence.text, sentence.words) for sentence in markdown_sentences(text)]
    assert sentences == [
        (1, "A title", 2),
        (2, "One link and Code here.", 5),
        (2, "Version 4.0.1 is no end; e.g. this.", 7),
        (4, "an item that goes on", 5),
        (6, "another", 1),
        (8, "a cell", 2),
        (8, "another", 1),
    ]
