cimport cython

ctypedef const unsigned char* Octets


@cython.locals(p=Octets, stop=Py_ssize_t, at=Py_ssize_t, flags=long, found=long, left=long, bit=int, size=Py_ssize_t, priority=long)
cpdef long check_properties(bytes content, Py_ssize_t header_size) except -1
