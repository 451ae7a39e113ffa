"""Numbers of the broker and its objects: as they are, summed up, and sampled for rates."""
