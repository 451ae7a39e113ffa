"""The API's description of itself."""

from leveret.management import api
from leveret.management.asking import Ask
from leveret.management.openapi import described
from leveret.management.routes import USER, Result, Route


def get_description(ask: Ask) -> Result:
    """This API as an OpenAPI document."""
    return described(api.ROUTES)


ROUTES = [Route("GET", "/api/openapi.json", USER, get_description)]
