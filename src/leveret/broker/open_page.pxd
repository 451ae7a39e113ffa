cimport cython
from leveret.broker.message cimport Entry, Message, Origin, new_entry, new_message, stub_of
from leveret.octets cimport Octets, Room, put_u32, put_u64, u32_at, u64_at

cdef int INDEX_SIZE

@cython.final
cdef class OpenPage:
    cdef public bytes data
    cdef public Py_ssize_t at
    cdef public Py_ssize_t count
    cdef bytearray _index
    cdef list _origins
    cdef Py_ssize_t _address_at
    cdef Py_ssize_t _address_size
    @cython.locals(p=Octets, last=Py_ssize_t, same=Py_ssize_t)
    cpdef bint has_address(self, Py_ssize_t start, Py_ssize_t size) noexcept
    cpdef add_origin(self, Origin origin, Py_ssize_t start, Py_ssize_t size)
    @cython.locals(p=Room, at=Py_ssize_t)
    cpdef add(self, long long seq, long long location, Py_ssize_t content_at, Py_ssize_t content_size, long long flags)
    @cython.locals(p=Room, at=Py_ssize_t)
    cpdef add_sizes(self, Py_ssize_t header_size, Py_ssize_t body_size, Py_ssize_t frame_size)
    @cython.locals(p=Room)
    cpdef long long seq(self, Py_ssize_t index) noexcept
    @cython.locals(p=Room)
    cpdef long long location(self, Py_ssize_t index) noexcept
    @cython.locals(p=Room)
    cpdef Py_ssize_t content_at(self, Py_ssize_t index) noexcept
    @cython.locals(p=Room)
    cpdef Py_ssize_t content_size(self, Py_ssize_t index) noexcept
    @cython.locals(p=Room)
    cpdef Py_ssize_t header_size(self, Py_ssize_t index) noexcept
    @cython.locals(p=Room)
    cpdef Py_ssize_t body_size(self, Py_ssize_t index) noexcept
    @cython.locals(p=Room)
    cpdef Py_ssize_t frame_size(self, Py_ssize_t index) noexcept
    @cython.locals(p=Room)
    cpdef long long flags(self, Py_ssize_t index) noexcept
    @cython.locals(p=Room)
    cpdef Origin origin(self, Py_ssize_t index)
    cpdef Entry first(self)
    cpdef list entries(self)
    @cython.locals(message=Message, index=Py_ssize_t, flags=long, body_size=Py_ssize_t, entry=Entry, found=list)
    cpdef list stubs(self, Py_ssize_t end)
    @cython.locals(entry=Entry)
    cdef Entry _entry(self, Py_ssize_t index)
    @cython.locals(p=Octets, at=Py_ssize_t, content=bytes, header_size=Py_ssize_t, body_size=Py_ssize_t, frame_size=Py_ssize_t)
    cdef Message _message(self, Py_ssize_t index)
