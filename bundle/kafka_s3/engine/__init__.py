"""How do records become objects exactly once? The commit log, the driver's loop, the tasks, and the files that stay open between tasks."""
