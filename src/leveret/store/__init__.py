"""Durability: the journal, what is paged out to it, recovery, and definitions."""
