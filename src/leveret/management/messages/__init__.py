"""What the API does with the messages of a queue: show, get and move them."""
