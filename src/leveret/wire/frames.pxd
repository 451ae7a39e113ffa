cimport cython

ctypedef const unsigned char* Octets

@cython.final
cdef class FrameReader:
    cdef public Py_ssize_t frame_max
    cdef public bytearray data
    cdef public bytes rest
    cdef public Py_ssize_t size
    cdef public Py_ssize_t at
    cdef public bint broken
    cdef public int kind
    cdef public int channel
    cdef public Py_ssize_t start
    cdef public Py_ssize_t stop
    cpdef feed(self, bytes data)
    @cython.locals(p=Octets, at=Py_ssize_t, size=Py_ssize_t, stop=Py_ssize_t)
    cpdef bint next(self) except -1
    cpdef read_from(self, bytearray buffer, Py_ssize_t size)
    cpdef put_back(self, bytes data)
    @cython.locals(p=Octets)
    cdef bytes _unread(self)
    cpdef keep_rest(self)
    @cython.locals(p=Octets)
    cpdef bytes payload(self)
