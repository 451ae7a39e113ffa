"""Values as RabbitMQ prints them in its error texts (Erlang's ~p). Imports nothing."""


def term(value: object) -> str:
    """Render a value as an Erlang term: <<"text">>, <<1,2>>, numbers, true, undefined, lists."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, str):
        value = value.encode(errors="surrogateescape")
    if isinstance(value, bytes):
        return f"<<{binary(value)}>>"
    if isinstance(value, list):
        return f"[{','.join(term(item) for item in value)}]"
    if isinstance(value, dict):
        return f"[{','.join(f'{{{term(name)},{term(item)}}}' for name, item in value.items())}]"
    return str(value)


def binary(value: bytes) -> str:
    if value and all(32 <= octet < 127 or octet in b"\b\t\n\v\f\r\x1b" for octet in value):
        return quoted(value.decode())
    return ",".join(str(octet) for octet in value)


def quoted(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b")):
        text = text.replace(plain, escaped)
    return f'"{text.replace(chr(11), chr(92) + "v").replace(chr(12), chr(92) + "f").replace(chr(27), chr(92) + "e")}"'
