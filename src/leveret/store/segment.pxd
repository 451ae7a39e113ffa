cimport cython

cdef int GRANULE

@cython.final
cdef class Segment:
    cdef public bint aside
    cdef public long long body_bytes
    cdef public object checks
    cdef public bint damaged
    cdef public object file
    cdef public long long first_batch
    cdef public long long live_body_bytes
    cdef public Py_ssize_t live_count
    cdef public bint made
    cdef public long long message_size
    cdef public str name
    cdef public long long number
    cdef public dict origins
    cdef public int pinned
    cdef public unsigned long long salt
    cdef public long long size
    cdef public Py_ssize_t total_count
    cdef public long long written
    cdef bytearray _dead
    cpdef place(self, Py_ssize_t count, long long body_size)
    @cython.locals(at=Py_ssize_t, dead=bytearray, bit=int)
    cpdef settle(self, long long offset, long long body_size)
    @cython.locals(at=Py_ssize_t)
    cpdef bint is_dead(self, long long offset)
