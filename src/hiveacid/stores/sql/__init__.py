"""Transaction store and catalog in a SQL database: one module a verb or small group, composed by ``store``."""
