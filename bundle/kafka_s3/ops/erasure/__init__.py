"""What is a person's right to be forgotten, for a sink? Whose records are meant, where they are, and how they leave."""
