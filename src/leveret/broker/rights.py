"""What one user may do in one virtual host: three patterns over names, and patterns over routing keys of topic exchanges.

Texts are RabbitMQ's. An object lives as long as its user and vhost do and is changed in place, so that everybody who
holds it feels a change at once; who remembers an answer beyond that compares the broker's epoch.
"""

from leveret.broker.patterns import Pattern, escaped
from leveret.errors import AccessRefused

REMEMBERED_MAX = 4096
PERMISSIONS = ("configure", "write", "read")


class Rights:
    """The rights of one user in one vhost; not `granted` means that it may not even enter."""

    __slots__ = ("_known", "_patterns", "_topic_patterns", "granted", "topics", "user_name", "vhost_name")

    def __init__(self, user_name: str, vhost_name: str) -> None:
        self.user_name = user_name
        self.vhost_name = vhost_name
        self.granted = False
        self.topics: dict[str, tuple[str, str]] = {}
        self._topic_patterns: dict[str, tuple[Pattern, Pattern]] = {}
        self._patterns: dict[str, Pattern] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def grant(self, configure: str, write: str, read: str) -> None:
        """Allow what these patterns match; BadPattern changes nothing."""
        self._patterns = {
            permission: Pattern(text, empty_is_nothing=True)
            for permission, text in zip(PERMISSIONS, (configure, write, read), strict=True)
        }
        self.granted = True
        self._known = {}

    def revoke(self) -> None:
        """Allow nothing."""
        self._patterns = {}
        self.granted = False
        self._known = {}

    def grant_topics(self, exchange: str, write: str, read: str) -> None:
        """Allow these routing keys on a topic exchange; without such an entry all are allowed."""
        self._topic_patterns[exchange] = (self._topic_pattern(write), self._topic_pattern(read))
        self.topics[exchange] = (write, read)

    def revoke_topics(self, exchange: str) -> None:
        """Allow all routing keys on a topic exchange again."""
        self.topics.pop(exchange, None)
        self._topic_patterns.pop(exchange, None)

    def pattern(self, permission: str) -> str:
        """The pattern of configure, write or read, as it was given."""
        return self._patterns[permission].text if permission in self._patterns else ""

    def allows(self, permission: str, name: str) -> bool:
        """Whether a queue or exchange of this name may be configured, written or read."""
        known = self._known.get((permission, name))
        if known is None:
            pattern = self._patterns.get(permission)
            known = pattern is not None and pattern.matches(name)
            if len(self._known) >= REMEMBERED_MAX:
                self._known = {}
            self._known[permission, name] = known
        return known

    def check_queue(self, permission: str, name: str) -> None:
        self._check(permission, "queue", name)

    def check_exchange(self, permission: str, name: str) -> None:
        # RabbitMQ: the default exchange goes by this name here.
        self._check(permission, "exchange", name or "amq.default")

    def check_any(self, kind: str, name: str) -> None:
        """Refuse to tell of a queue or exchange with which the user may do nothing."""
        if not any(self.allows(permission, name) for permission in PERMISSIONS):
            raise AccessRefused(self._refusal("", kind, name))

    def check_topic(self, permission: str, exchange: str, routing_key: str) -> None:
        """Refuse a routing key on a topic exchange."""
        patterns = self._topic_patterns.get(exchange)
        if patterns is not None and not patterns[permission == "read"].matches(routing_key):
            raise AccessRefused(
                f"{permission} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{self.vhost_name}' "
                f"refused for user '{self.user_name}'"
            )

    def _check(self, permission: str, kind: str, name: str) -> None:
        if not self.allows(permission, name):
            raise AccessRefused(self._refusal(permission + " ", kind, name))

    def _refusal(self, permission: str, kind: str, name: str) -> str:
        return f"{permission}access to {kind} '{name}' in vhost '{self.vhost_name}' refused for user '{self.user_name}'"

    def _topic_pattern(self, text: str) -> Pattern:
        # Escaped: a user called `.*` must not be allowed everything.
        for name, value in (("{username}", self.user_name), ("{vhost}", self.vhost_name)):
            text = text.replace(name, escaped(value))
        return Pattern(text, empty_is_nothing=True)
