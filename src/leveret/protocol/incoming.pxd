cimport cython
from leveret.protocol.session cimport Session
from leveret.wire.frames cimport FrameReader

ctypedef const unsigned char* Octets

cdef int FRAME_HEAD, FRAME_BODY, FRAME_END, FRAME_HEADER
cdef Py_ssize_t EVEN_FRAME_MIN

@cython.final
cdef class Incoming:
    cdef public bytes method
    cdef public int channel
    cdef public bytes header
    cdef public Py_ssize_t size
    cdef public Py_ssize_t received
    cdef public Py_ssize_t frame_size
    cdef public bint odd
    cdef public bint gone
    cdef Session _session
    cdef Py_ssize_t _at
    cdef Py_ssize_t _filled
    cdef bytes _content
    cdef object _view
    cdef bytes _left
    cdef bytearray _body
    cpdef begin(self, bytes header, Py_ssize_t size)
    cpdef bint whole(self)
    @cython.locals(size=Py_ssize_t)
    cpdef add(self, FrameReader reader)
    cdef _count(self, Py_ssize_t size)
    cdef bint _fits(self, Py_ssize_t size) except -1
    cdef bint _reserve(self, Py_ssize_t frame_size) except -1
    @cython.locals(end=Py_ssize_t)
    cdef _put(self, object octets)
    cdef _gather(self)
    cdef _body_so_far(self)
    cdef _release(self)
    @cython.locals(p=Octets, at=Py_ssize_t, size=Py_ssize_t)
    cpdef bint fill(self, FrameReader reader) except -1
    cpdef bint full(self)
    cpdef object room(self)
    cpdef bytes take(self, bytes data)
    cpdef filled(self, Py_ssize_t size)
    @cython.locals(p=Octets, at=Py_ssize_t, size=Py_ssize_t, wanted=Py_ssize_t, end=Py_ssize_t)
    cpdef advance(self)
    cpdef bytes left_over(self)
    cpdef bytes content(self, Py_ssize_t frame_max)
    cpdef abandon(self)
