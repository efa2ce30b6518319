"""What follows the log? Tables over the objects, done-markers, notifications: each works after an entry, from the log alone."""
