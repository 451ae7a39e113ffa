cimport cython
from leveret.wire.values cimport check_table

ctypedef const unsigned char* Octets

cdef Py_ssize_t FRAME_OVERHEAD
cdef int FLAGS_AT, PROPERTIES_AT, _PRIORITY_SHIFT
cdef long _PERSISTENT, _COPIED


@cython.locals(p=Octets, stop=Py_ssize_t, at=Py_ssize_t, flags=long, found=long, left=long, bit=int, size=Py_ssize_t, priority=long)
cpdef long check_properties(bytes content, Py_ssize_t header_size) except -1

@cython.locals(frames=Py_ssize_t)
cpdef Py_ssize_t content_size(Py_ssize_t header_size, Py_ssize_t body_size, Py_ssize_t frame_size) except -1
