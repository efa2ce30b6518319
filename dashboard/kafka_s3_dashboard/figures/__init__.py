"""What do the tables of a commit log say? Pure functions from frames to figures, charts and texts."""
