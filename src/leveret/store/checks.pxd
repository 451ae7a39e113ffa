cimport cython

@cython.final
cdef class Checks:
    cdef object _checks
    cdef object _ends
    cdef object _starts
    cdef tuple _tail
    cdef public long long size
    @cython.locals(at="long long", last="long long", stop="long long", behind="long long")
    cpdef add(self, object data, list known=*, Py_ssize_t start=*, Py_ssize_t end=*)
    @cython.locals(first="long long", last="long long", at=Py_ssize_t)
    cdef _extend(self, object view)
    cdef _close(self)
    cdef _put(self, long long start, long long end, object check)
    @cython.locals(index=Py_ssize_t, tail=tuple, found=list)
    cpdef list spans(self, long long start, long long end)
