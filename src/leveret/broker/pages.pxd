cimport cython
from leveret.octets cimport Room, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at

cdef int RECORD_SIZE, ROOM_MIN
cdef long COUNT_MAX

@cython.final
cdef class SharedWindow:
    cdef public long long limit
    cdef public long long piece
    cdef public long long used
    @cython.locals(most="long long")
    cpdef long long grant(self, long long size, long long granted)
    cpdef give_back(self, long long size)

@cython.final
cdef class Sizes:
    cdef public long page_bytes
    cdef public int page_count
    cdef public SharedWindow shared
    cdef public long long window_bytes
    cdef public int window_count

@cython.final
cdef class Page:
    cdef bytearray _records
    cdef public Py_ssize_t count
    cdef public Py_ssize_t live_count
    cdef public long long body_bytes
    @cython.locals(p=Room, at=Py_ssize_t)
    cpdef add(self, long long seq, long long location, Py_ssize_t body_size, long delivery_count, bint redelivered)
    cpdef close(self)
    @cython.locals(p=Room)
    cpdef long long seq(self, Py_ssize_t index)
    @cython.locals(p=Room)
    cpdef long long location(self, Py_ssize_t index)
    @cython.locals(p=Room)
    cpdef Py_ssize_t body_size(self, Py_ssize_t index)
    @cython.locals(p=Room)
    cpdef long delivery_count(self, Py_ssize_t index)
    @cython.locals(p=Room)
    cpdef bint redelivered(self, Py_ssize_t index)
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, found="long long")
    cpdef Py_ssize_t find(self, long long seq)
    @cython.locals(p=Room)
    cpdef move(self, Py_ssize_t index, long long location)
    cpdef tuple record(self, Py_ssize_t index)
    cpdef remove(self, Py_ssize_t index)

@cython.final
cdef class Pages:
    cdef list _pages
    cdef Sizes _sizes
    cdef Page _last
    cdef public Py_ssize_t count
    cdef public long long body_bytes
    cdef public long long read_count
    cdef public long long spilled_count
    @cython.locals(last=Page)
    cpdef add(self, long long seq, long long location, Py_ssize_t body_size, long delivery_count, bint redelivered)
    @cython.locals(page=Page, at=Py_ssize_t, found=list)
    cpdef list span(self, Py_ssize_t offset, Py_ssize_t count)
    cpdef put_before(self, Pages others)
    cpdef list take_all(self)
    @cython.locals(page=Page)
    cpdef Page take(self)
    @cython.locals(page=Page, index=Py_ssize_t)
    cpdef bint move(self, long long seq, long long location)
    @cython.locals(page=Page)
    cpdef bint has(self, long long seq)
    @cython.locals(page=Page, index=Py_ssize_t)
    cpdef tuple remove(self, long long seq)
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, page=Page)
    cdef Page _page_of(self, long long seq)
