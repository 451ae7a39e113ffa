"""Bytes that are filled where they lie: made first, written to by a socket or from a buffer, and only then shown to anybody.

What a large message consists of is so received once and never copied. CPython allows it for bytes that are new: see
PyBytes_FromStringAndSize in its C API. New memory comes from the system when it is written to, so what is only announced
costs little; but what is taken from the heap's own cannot be given back meanwhile: whoever asks bounds it.

  (1) Whoever has the view keeps the bytes too: the view does not hold them.
  (2) Nobody else sees the bytes before the view is released.
"""

import ctypes

PYBUF_WRITE = 0x200

_API = ctypes.pythonapi
_new_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(("PyBytes_FromStringAndSize", _API))
_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", _API))
_view = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", _API)
)


def unfilled_bytes(size: int) -> tuple[bytes, memoryview]:
    """New bytes, two at least, and where to write them."""
    content: bytes = _new_bytes(None, size)
    view: memoryview = _view(_address(content), size, PYBUF_WRITE)
    return content, view
