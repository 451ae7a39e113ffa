cimport cython
from leveret.wire.values cimport check_table

ctypedef const unsigned char* Octets

cdef int FLAGS_AT, PROPERTIES_AT, _PRIORITY_SHIFT
cdef long _PERSISTENT, _COPIED


@cython.locals(p=Octets, stop=Py_ssize_t, at=Py_ssize_t, flags=long, found=long, left=long, bit=int, size=Py_ssize_t, priority=long)
cpdef long check_properties(bytes content, Py_ssize_t header_size) except -1
