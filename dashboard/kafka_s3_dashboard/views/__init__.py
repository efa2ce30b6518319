"""The pages, one module each: `TITLE`, `ICON`, `PATH`, and `render`, which draws a scene."""
