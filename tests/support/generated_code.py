"""The Java code that Spark generates for a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Code:
    """One class: its text, and the bytes of its longest method; the JVM compiles none of more than 8,000."""

    text: str
    longest: int


def generated(frame: DataFrame) -> list[Code]:
    """Return the classes of a plan, once it has been carried out."""
    frame.collect()
    inside: Any = frame._jdf
    jvm: Any = frame.sparkSession._jvm
    debug = getattr(jvm.org.apache.spark.sql.execution.debug, "package$")
    found = getattr(debug, "MODULE$").codegenStringSeq(inside.queryExecution().executedPlan())
    classes = [found.apply(nth) for nth in range(found.size())]
    return [Code(str(one._2()), int(one._3().maxMethodCodeSize())) for one in classes]
