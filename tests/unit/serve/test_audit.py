"""The audit log tells what was done, but no secrets."""

from __future__ import annotations

import logging

import pytest

from hiveacid.serve.audit import audit, is_secret


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("SET fs.s3a.secret.key=1", True),
        ("CREATE USER a IDENTIFIED BY 'b'", True),
        ("SELECT * FROM t WHERE id = 1", False),
    ],
)
def test_secrets_are_recognised(text: str, *, secret: bool) -> None:
    assert is_secret(text) is secret


def test_values_of_settings_that_are_secrets_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hiveacid.audit")
    settings = {"set:hiveconf:fs.s3a.secret.key": "hush", "a.url": "https://me:hush@host/", "a.b": "seen"}
    audit("session_opened", "ann", "here", settings=settings)
    for text in (
        " set\nfs.s3a.secret.key = hush",
        "SET a.url=https://me:hush@host/",
        "SET a.b=seen",
        "SELECT 1 AS token",
    ):
        audit("statement", "ann", "here", text=text)
    assert [record.getMessage().split('host="here" ')[1] for record in caplog.records] == [
        'settings={"set:hiveconf:fs.s3a.secret.key": "***", "a.url": "***", "a.b": "seen"}',
        'text=" set\\nfs.s3a.secret.key =***"',
        'text="SET a.url=***"',
        'text="SET a.b=seen"',
        'text="SELECT 1 AS token"',
    ]
