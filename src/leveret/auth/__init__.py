"""Who decides logins beside the broker's own users, and what takes too long for the loop."""
