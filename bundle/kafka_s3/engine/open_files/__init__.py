"""The open files of a task: what they hold, where that waits, how it is kept for the next task, and how they close."""
