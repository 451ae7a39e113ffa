"""The API's description of itself."""

from leveret.management import api
from leveret.management.http.openapi import described
from leveret.management.http.request import Request
from leveret.management.http.route import USER, Result, Route


def get_description(request: Request) -> Result:
    """This API as an OpenAPI document."""
    return described(api.ROUTES)


ROUTES = [Route("GET", "/api/openapi.json", USER, get_description)]
