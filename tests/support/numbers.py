"""Numbers for names that no other test of this process has."""

import itertools

numbers = itertools.count(1)
