cimport cython
from leveret.broker.pages cimport Pages
from leveret.octets cimport Octets, Room, put_u32, put_u64, u16_at, u32_at, u64_at
from leveret.store.journal cimport Journal
from leveret.store.records cimport check_room, place_offset, record_size
from leveret.store.segment cimport Segment

cdef int FOUND_SIZE, MESSAGE, COMMIT, SETTLE, PURGE, REQUEUE
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
    @cython.locals(at=Py_ssize_t, p=Room)
    cpdef add(self, long long seq, long long location, Py_ssize_t body_size, long delivery_count)
    @cython.locals(p=Room)
    cpdef long long seq(self, Py_ssize_t index)
    @cython.locals(p=Room, number=Py_ssize_t, index=Py_ssize_t, at=Py_ssize_t, seq="long long", location="long long", delivery_count=long, order=list)
    cpdef dict fill(self, Pages pages, dict counts, Journal journal, bint clean)

cdef class Recovery:
    cdef object _disk
    cdef Journal _journal
    cdef dict _gone
    cdef set _committed
    cdef list _in_groups
    cdef list _ends
    cdef long long _last_batch
    cdef long long _synced
    cdef public long long highest_group
    cdef public long long highest_queue_id
    cdef public Py_ssize_t message_count
    cdef public list damage
    @cython.locals(p=Octets, at=Py_ssize_t, length=Py_ssize_t, kind=int, group="long long", queue="long long")
    cdef _gather(self, bytes payload)
    cdef Gone _gone_of(self, long long queue)
    @cython.locals(payload=bytes, p=Octets, at=Py_ssize_t, length=Py_ssize_t)
    cdef _place(self, Segment segment, object batch, dict found)
    @cython.locals(p=Octets, count=long, number=long, group="long long", counts=bint, place_at=Py_ssize_t, queue="long long", seq="long long", gone=Gone, places=Found, location="long long")
    cdef _place_message(self, Segment segment, long long start, bytes payload, Py_ssize_t at, dict found)
