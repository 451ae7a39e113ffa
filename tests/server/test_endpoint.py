"""Where clients come in, as the settings say."""

from leveret.server.config import Config
from leveret.server.endpoint import NO_LOGIN, PASSWORD, Endpoint, endpoints, management_endpoints


def test_endpoints_are_those_of_the_settings() -> None:
    config = Config(host="::1", port=1, management_port=2, prometheus_port=3)
    assert endpoints(config) == [
        Endpoint("amqp", "::1", 1, tls=False, login=PASSWORD),
        Endpoint("http", "::1", 2, tls=False, login=PASSWORD),
        Endpoint("prometheus", "::1", 3, tls=False, login=NO_LOGIN),
    ]


def test_without_management_there_is_amqp_alone() -> None:
    config = Config(management=False)
    assert [one.protocol for one in endpoints(config)] == ["amqp"]
    assert [one.protocol for one in management_endpoints(config)] == ["http", "prometheus"]


def test_endpoint_has_the_port_that_was_had() -> None:
    assert Endpoint("amqp", "localhost", 0).at(("127.0.0.1", 5)) == Endpoint("amqp", "127.0.0.1", 5)


def test_endpoint_as_text() -> None:
    assert str(Endpoint("amqp", "127.0.0.1", 5672)) == "amqp=127.0.0.1:5672"
    assert str(Endpoint("http", "::1", 15672)) == "http=[::1]:15672"
