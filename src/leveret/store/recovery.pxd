cimport cython
from leveret.octets cimport Octets, u16_at, u32_at, u64_at
from leveret.store.found cimport Found, Gone
from leveret.store.journal cimport Journal
from leveret.store.records cimport body_size_at, check_room, group_at, place_offset, record_size
from leveret.store.segment cimport Segment

cdef int MESSAGE, COMMIT, SETTLE, PURGE, REQUEUE, MARK, KIND_MASK, DELIVERED

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
    cdef list _rooms
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
