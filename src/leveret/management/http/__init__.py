"""What every route needs: the request, who makes it, lists, JSON, and the answer."""
