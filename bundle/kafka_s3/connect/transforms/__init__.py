"""What do Connect's single message transforms do to records? Each class with the original's rules, over whole columns where it can."""
