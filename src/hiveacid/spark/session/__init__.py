"""Access to a Spark session: its capabilities, its JVM, its jobs, and its errors as errors of this project.

``capabilities.SparkEnvironment`` describes a session (version, time zones) and is passed to every plan. ``classic_session``,
``java_methods`` and ``callback_server`` use the JVM through Py4J. ``plan_lifetime`` tells whether a plan made from a snapshot can still run.
``error_translation`` translates Spark's errors, ``jobs`` names and cancels Spark jobs, ``launch`` starts a local
session, and ``file_systems`` opens remote storage with the session's settings.

Invariants: settings of the user's session stay as they are, except those that `SparkEnvironment.apply_settings` sets; only
this package and ``parser`` call non-public methods of Spark.
"""
