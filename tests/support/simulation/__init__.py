"""A seeded simulation: writers, readers, compactor, cleaner and reaper on one store, one integer replays a run."""
