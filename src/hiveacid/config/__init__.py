"""One registry of settings: Hive's own names and defaults; own keys (``hiveacid.*``) only where Hive has none.

Reading is typed by the constant that names the setting::

    from hiveacid.config import Settings, keys

    settings = Settings().with_value("hive.txn.timeout", "10min")
    settings.get(keys.TXN_TIMEOUT)  # 600.0, a float: durations are seconds, sizes bytes

``docs/settings.md`` is made from ``keys`` by ``tools/settings_page.py``.
"""

from hiveacid.config import keys
from hiveacid.config.settings import Settings

__all__ = ["Settings", "keys"]
