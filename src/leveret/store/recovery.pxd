cimport cython
from leveret.broker.pages cimport Pages
from leveret.octets cimport Octets, Room, put_u32, put_u64, u16_at, u32_at, u64_at
from leveret.store.journal cimport Journal
from leveret.store.records cimport body_size_at, check_room, group_at, place_offset, record_size
from leveret.store.segment cimport Segment

cdef int FOUND_SIZE, MESSAGE, COMMIT, SETTLE, PURGE, REQUEUE, MARK, KIND_MASK, DELIVERED
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

cdef class Recovery:
    cdef object _disk
    cdef Journal _journal
    cdef long long _delivered_up_to
    cdef long long _known_batch
    cdef dict _gone
    cdef object _progress
    cdef set _committed
    cdef list _in_groups
    cdef list _ends
    cdef list _torn
    cdef list _tail
    cdef bint _gap_known
    cdef dict _headless
    cdef public long long first_batch
    cdef public long long last_batch
    cdef long long _synced
    cdef public tuple mark
    cdef public long long highest_group
    cdef public long long highest_queue_id
    cdef public Py_ssize_t message_count
    cdef public list damage
    @cython.locals(p=Octets, length=Py_ssize_t, kind=int, group="long long", queue="long long")
    cdef _gather_span(self, bytes payload, Py_ssize_t at, Py_ssize_t end)
    cdef Gone _gone_of(self, long long queue)
    @cython.locals(payload=bytes, p=Octets, length=Py_ssize_t, delivered=bint)
    cdef _place(self, Segment segment, object batch, Py_ssize_t at, Py_ssize_t end, dict found)
    @cython.locals(p=Octets, count=long, number=long, body_size="long long", group="long long", counts=bint, place_at=Py_ssize_t, queue="long long", seq="long long", gone=Gone, places=Found, location="long long", before=bint)
    cdef _place_message(self, Segment segment, long long start, bytes payload, Py_ssize_t at, dict found, bint delivered)
