cimport cython
from leveret.broker.pages cimport Pages
from leveret.octets cimport Octets, Room, put_u32, put_u64, u32_at, u64_at
from leveret.store.journal cimport Journal

cdef int FOUND_SIZE
cdef long long DELIVERED_BEFORE
cdef bytes NOTHING

@cython.final
cdef class Gone:
    cdef public long long floor
    cdef public long long highest
    cdef public list runs
    cdef public dict counts
    cdef list _firsts
    cdef list _lasts
    cpdef bint has(self, long long seq) except -1

@cython.final
cdef class Found:
    cdef bytearray _places
    cdef bint _ordered
    cdef long long _last_seq
    cdef public Py_ssize_t count
    cdef public list times
    @cython.locals(at=Py_ssize_t, p=Room)
    cpdef add(self, long long seq, long long location, Py_ssize_t body_size, long long delivery_count, bint delivered=*)
    @cython.locals(p=Room)
    cpdef long long seq(self, Py_ssize_t index)
    @cython.locals(p=Room, number=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t, seq="long long", location="long long", delivery_count="long long", delivered=bint, order=list)
    cpdef dict fill(self, Pages pages, dict counts, Journal journal, bint clean)
