cimport cython
from leveret.broker.message cimport Entry

cdef class Pages:
    cdef list _pages
    cdef public Py_ssize_t count
    cdef public long long body_bytes
    cdef long long _last_bytes
    @cython.locals(pages=list)
    cpdef add(self, long long seq, long long location, Py_ssize_t body_size, long delivery_count, bint redelivered)
    cpdef list take(self)
