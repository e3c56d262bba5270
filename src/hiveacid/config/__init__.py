"""Registries of settings and of table properties: name, type, default, meaning, origin.

Names and defaults are Hive's; own keys (``hiveacid.*``) exist only where Hive has none.

- ``setting_definitions`` holds a constant for each setting.
- `Settings` holds the values of a session: an immutable value that is handed down, never global.
- ``property_definitions`` holds a constant for each key of TBLPROPERTIES. It also applies those that change settings of
  compaction.

Reading is typed by the constant that names the setting::

    from hiveacid.config import Settings, setting_definitions

    settings = Settings().with_value("hive.txn.timeout", "10min")
    settings.get(setting_definitions.TXN_TIMEOUT)  # 600.0, a float: durations are seconds, sizes bytes

The code uses every constant. ``tools/generated_pages.py`` generates ``docs/settings.md`` and
``docs/table-properties.md`` from both registries.
"""

from hiveacid.config import setting_definitions
from hiveacid.config.setting_definitions import Settings

__all__ = ["Settings", "setting_definitions"]
