"""What do pages share? The reader's choice, one look at the sink, tables and charts, and what to say when there is nothing."""
