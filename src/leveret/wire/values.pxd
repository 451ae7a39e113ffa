cimport cython

ctypedef const unsigned char* Octets

cdef bytes _SHAPES

@cython.locals(p=Octets, at=Py_ssize_t, size=int, value=Py_ssize_t, copied=int)
cpdef int check_table(bytes data, Py_ssize_t start, Py_ssize_t stop, int depth) except -1

@cython.locals(at=Py_ssize_t)
cpdef int check_array(bytes data, Py_ssize_t start, Py_ssize_t stop, int depth) except -1

@cython.locals(p=Octets, shapes=Octets, shape=int, step=int, end=Py_ssize_t, size=Py_ssize_t)
cdef Py_ssize_t _check_value(bytes data, Py_ssize_t at, Py_ssize_t stop, int depth) except -1
