cimport cython
from leveret.broker.chain cimport Chain
from leveret.broker.message cimport Entry, is_stub
from leveret.broker.open_page cimport OpenPage
from leveret.broker.pages cimport Page, Pages, SharedWindow, Sizes

cdef long LARGE_BYTES, ENTRY_BYTES

@cython.final
cdef class Backlog:
    cdef public Sizes sizes
    cdef public Py_ssize_t count
    cdef public long long body_bytes
    cdef public long long stub_bytes
    cdef public Chain front
    cdef public list opened
    cdef public bint paged
    cdef public Pages pages
    cdef public Chain back
    cdef public Py_ssize_t back_count
    cdef public long long back_bytes
    cdef public long long back_seq
    cdef public object loading
    cdef public long long granted
    cdef bint _can_page
    cdef list _evictable_unacked
    cdef list _evictable_ready
    cdef long long _evictable_ready_bytes
    cpdef suit(self, object settings)
    cpdef add(self, object queue, Entry entry)
    @cython.locals(entry=Entry)
    cpdef Entry bring(self, object queue)
    cpdef remove_first(self, object queue, Entry entry)
    @cython.locals(entry=Entry, page=OpenPage)
    cpdef Entry head(self)
    @cython.locals(entry=Entry, page=OpenPage, opened=list)
    cpdef unfold(self)
    @cython.locals(index=Py_ssize_t)
    cpdef remove_octets(self, object queue, OpenPage page, Py_ssize_t start)
    @cython.locals(chain=Chain)
    cpdef remove(self, object queue, Entry entry)
    @cython.locals(entry=Entry)
    cpdef Entry remove_paged(self, object queue, long long seq)
    @cython.locals(entry=Entry, size=Py_ssize_t)
    cpdef put_back(self, list entries)
    cpdef tuple clear(self)
    cdef _shrunk(self, object queue)
    cdef long long _held_bytes(self)
    @cython.locals(held="long long")
    cdef bint _borrow_memory(self, object queue) except -1
    cdef bint _is_calm(self)
    cpdef give_back_memory(self, long long kept=*)
    cdef bint _exceeds_window(self)
    cdef _overflow(self, object queue, Entry entry)
    cpdef begin_paging(self, long long next_seq)
    @cython.locals(is_long=bint)
    cdef _add_behind(self, object queue, Entry entry)
    cdef bint _is_low(self)
    cpdef load(self, object queue)
    @cython.locals(entry=Entry)
    cpdef loaded(self, object queue, list entries, Py_ssize_t lost_count, long long lost_bytes)
    cpdef opened_page(self, object queue, OpenPage page)
    cpdef restore(self, object queue, Pages pages, long long next_seq)
    @cython.locals(entry=Entry)
    cpdef list filled(self, list entries)
    cdef _evict_later(self, object queue, Entry entry)
    cpdef evict(self, object queue, list entries)
    @cython.locals(entries=list)
    cpdef evict_front(self, object queue)
    @cython.locals(others=list)
    cpdef evict_unacked(self, object queue, Entry entry)

cpdef long long memory_of(Py_ssize_t count, long long body_bytes) noexcept
