"""Everything that needs Spark: reading and writing tables as native plans.

``session`` and ``parser`` give access to Spark; ``formats`` maps types and file formats; ``predicates`` derives
push-down from conditions; ``read`` builds scans and ``write`` stages and publishes rows. The packages know neither
transactions nor stores: the verbs of ``hiveacid.table`` pass in snapshots and write ids, and commit.
"""
