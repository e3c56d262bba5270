"""Access to a Spark session: its capabilities, its JVM, its jobs, and its errors as errors of this project.

``environment.SparkEnvironment`` describes a session (version, time zones) and is passed to every plan. ``jvm``,
``classic_session`` and ``callback_server`` use the JVM through Py4J, and ``bound_plans`` puts rows into plans.
``running_jobs_and_plans`` names and cancels Spark jobs, and tells whether a plan made from a snapshot can still run.
``error_translation`` translates Spark's errors, ``jvm_process`` starts a local session and watches its JVM, and
``file_systems`` opens remote storage with the session's settings.

Invariants: settings of the user's session stay as they are, except those that `SparkEnvironment.apply_settings` sets; only
this package and ``parser`` call non-public methods of Spark.
"""
