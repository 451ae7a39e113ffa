cimport cython
from leveret.broker.message cimport Entry, Message
from leveret.broker.open_page cimport OpenPage
from leveret.broker.queue cimport Queue
from leveret.broker.storage cimport Log
from leveret.store.ledger cimport Ledger
from leveret.store.records cimport write_message, write_numbers, write_place
from leveret.store.segment cimport Segment

cdef int BATCH_HEAD_SIZE, PLACE_SIZE, PLACES_AT
cdef long long OFFSET_MASK
cdef long SPILL_NUMBER

cdef class Journal(Log):
    cdef object _disk
    cdef Segment _finished
    cdef dict _moved
    cdef str _prefix
    cdef list _writing
    cdef public long long batch
    cdef public Segment current
    cdef public list dirty
    cdef public long long group
    cdef public tuple mark
    cdef tuple _marked
    cdef public bint spills
    cdef public bint worth_cleaning
    cdef public bytearray out
    cdef public Py_ssize_t segment_size
    cdef public dict segments
    cdef public long long synced
    cdef public long long written_count
    cpdef long long position(self)
    @cython.locals(segment=Segment, out=bytearray, at=Py_ssize_t, count=Py_ssize_t, number=Py_ssize_t, queue=Queue, entry=Entry, ledger=Ledger)
    cpdef append(self, Message message, list placed)
    @cython.locals(segment=Segment, out=bytearray, at=Py_ssize_t)
    cpdef long long write(self, Message message, Entry entry) except -1
    cpdef long long where(self, long long location) except -1
    @cython.locals(segment=Segment)
    cpdef release(self, long long location, long long body_size)
    @cython.locals(location="long long")
    cpdef forget(self, Entry entry)
    @cython.locals(segment=Segment, index=Py_ssize_t, location="long long")
    cpdef release_octets(self, OpenPage page, Py_ssize_t first)
    @cython.locals(segment=Segment, entry=Entry, location="long long")
    cpdef unspill(self, list entries)
