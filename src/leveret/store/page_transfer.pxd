cimport cython
from leveret.broker.backlog cimport Backlog, memory_of
from leveret.broker.chain cimport Chain
from leveret.broker.message cimport Entry, Message, is_stub, new_entry, stub_of
from leveret.broker.open_page cimport OpenPage
from leveret.broker.pages cimport Page, Pages
from leveret.broker.queue cimport Queue
from leveret.store.journal cimport Journal
from leveret.store.records cimport check_room, describe_message, read_message
from leveret.store.segment cimport Segment
from leveret.octets cimport Octets, Room, put_u64, u16_at, u32_at, u64_at

cdef int PLACE_SIZE, PLACES_AT, NUMBER_MASK
cdef long STORED
cdef long long OFFSET_MASK
cdef long SPILL_NUMBER, GAP_MAX, READ_AHEAD, SPARSE_FROM

@cython.locals(backlog=Backlog, back=Chain, entry=Entry, first=Entry, body_bytes="long long")
cpdef page_out(object store, Queue queue)
@cython.locals(backlog=Backlog, pages=Pages, entry=Entry)
cpdef page_out_all(object store, Queue queue)
@cython.locals(location="long long")
cdef _add_to(Pages pages, Entry entry, Queue queue, Journal spill)
cpdef check_placed(Queue queue, Entry entry)
@cython.locals(spill=Journal, entry=Entry)
cpdef evict(object store, Queue queue, list entries)
@cython.locals(entry=Entry, index=Py_ssize_t, location="long long")
cpdef forget(Journal spill, Page page, object settler)

cdef class StubReading:
    cdef public Queue queue
    cdef list _stubs
    cdef Reading _reading

@cython.final
cdef class Filling(StubReading):
    pass

@cython.final
cdef class Fetching(StubReading):
    cdef object _done

@cython.final
cdef class Run:
    cdef public list bad
    cdef public bytes data
    cdef public set lost
    cdef public long long end
    cdef public Py_ssize_t first
    cdef public long long last_at
    cdef public Segment segment
    cdef public long long start
    cdef public dict strays

@cython.final
cdef class Reading:
    cdef public Queue queue
    cdef object _store
    cdef Page _page
    cdef bytearray _places
    cdef list _runs
    @cython.locals(page=Page, run=Run, index=Py_ssize_t, location="long long", at="long long", log=Journal, spill=Journal, journal=Journal, places=Room)
    cdef _plan(self)
    @cython.locals(run=Run, segment=Segment)
    cpdef bint is_taken(self) except -1
    @cython.locals(run=Run, index=Py_ssize_t, stop=Py_ssize_t, number=Py_ssize_t)
    cpdef read(self)
    @cython.locals(p=Octets)
    cdef long long _place_at(self, Py_ssize_t index) noexcept
    @cython.locals(data=bytes, place_at="long long", at="long long", length="long long", p=Octets)
    cdef bint _look_at(self, Run run, Py_ssize_t index) except -1
    @cython.locals(data=bytes, first="long long", length="long long")
    cdef bint _read_stray(self, Run run, Py_ssize_t index, long long start) except -1
    @cython.locals(page=Page, run=Run, index=Py_ssize_t, stop=Py_ssize_t, number=Py_ssize_t, entry=Entry, p=Octets, place_at="long long")
    cpdef list entries(self)
    @cython.locals(run=Run, page=Page, data=bytes, p=Octets, found=OpenPage, index=Py_ssize_t, place_at="long long", at="long long")
    cdef OpenPage _octets(self)
    cdef Message _message(self, Run run, Py_ssize_t index, long long place_at)
    @cython.locals(count=Py_ssize_t, size="long long", octets=OpenPage)
    cpdef finish(self, object store)

@cython.locals(p=Octets)
cpdef long long record_at(bytes data, long long place_at) except? -1
