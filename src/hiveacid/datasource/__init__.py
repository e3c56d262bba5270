"""``format("hiveacid")`` on Spark's Python Data Source API (Spark 4.0 and later).

`register` makes the format known to a session; `hiveacid.connect` does it by itself where the session can.
"""

from hiveacid.datasource.registration import can_register, register

__all__ = ["can_register", "register"]
