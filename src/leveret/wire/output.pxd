cimport cython

ctypedef unsigned char* Room
ctypedef const unsigned char* Octets

cdef int FRAME_OVERHEAD
cdef Py_ssize_t COPIED_BODY_MAX
cdef Py_ssize_t FULL_SIZE

@cython.final
cdef class Output:
    cdef public bytearray buffer
    cdef public Py_ssize_t frame_max
    cdef public bint blocked
    cdef public long long blocked_at
    cdef object _wake
    cdef bint _awake
    cdef list _pieces
    cdef Py_ssize_t _pieces_size
    cpdef Py_ssize_t size(self)
    cpdef bint full(self)
    cpdef bint hurrying(self, long long now)
    cpdef wake(self)
    @cython.locals(pieces=list)
    cpdef list take(self)
    cpdef write(self, bytes data)
    @cython.locals(at=Py_ssize_t)
    cpdef Py_ssize_t grow(self, Py_ssize_t size) except -1
    @cython.locals(buffer=bytearray, last=Py_ssize_t, p=Room)
    cpdef write_numbered(self, bytes frame, Py_ssize_t at, long long number)
    @cython.locals(buffer=bytearray, at=Py_ssize_t, p=Room)
    cpdef write_content(self, int channel, bytes content, Py_ssize_t header_size, Py_ssize_t body_size, Py_ssize_t frame_size)
    @cython.locals(p=Octets, end=Py_ssize_t, at=Py_ssize_t, is_of_channel=bint)
    cdef _refer(self, int channel, bytes content, Py_ssize_t header_size, Py_ssize_t body_size, Py_ssize_t frame_size)

cpdef bint is_copied(Py_ssize_t body_size) noexcept
@cython.locals(index=Py_ssize_t)
cpdef void copy(Room p, Py_ssize_t at, Octets data, Py_ssize_t start, Py_ssize_t size) noexcept
