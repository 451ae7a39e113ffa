"""Dynamic shovels: clients of this broker's own that move messages from one broker to another."""
