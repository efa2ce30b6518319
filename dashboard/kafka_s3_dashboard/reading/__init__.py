"""What is in the bucket? Readers of commit logs, dead letters and Delta logs; the log as tables; what is kept on this machine."""
