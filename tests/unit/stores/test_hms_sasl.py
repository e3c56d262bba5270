"""What can be told of Kerberos without a realm; the rest is in tests/interop/test_hive_kerberos.py."""

from __future__ import annotations

import socket
import sys

import pytest

from hiveacid.errors import ConfigError
from hiveacid.stores.hms.sasl import SaslTransport


def test_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ConfigError, match=r"pip install 'hiveacid\[kerberos\]'"):
        SaslTransport(ours, "hive/localhost@REALM")
