cimport cython
from leveret.broker.message cimport Entry
from leveret.broker.counters cimport Counters
from leveret.broker.open_page cimport OpenPage

@cython.final
cdef class Window:
    cdef public long count_limit
    cdef public long long size_limit
    cdef public long count
    cdef public long long size
    cpdef bint fits(self, Py_ssize_t size)
    cpdef bint counts(self)
    cpdef bint limited(self)
    cpdef void take(self, Py_ssize_t size)
    cpdef void free(self, Py_ssize_t size)

cdef class Consumer:
    cdef public str tag
    cdef public Counters counters
    cdef public bint no_ack
    cdef public bint exclusive
    cdef public bint active
    cdef public bint subscribed
    cdef public long priority
    cdef public Window window
    cdef public Window channel_window
    cdef public dict arguments
    cdef public object queue
    cpdef bint can_take(self, Py_ssize_t size)
    cpdef bint hurrying(self, long long now)
    cpdef bint takes_octets(self) except -1
    cpdef Py_ssize_t run_end(self, OpenPage page, Py_ssize_t limit) except -1
    cpdef deliver_octets(self, OpenPage page, Py_ssize_t first, Py_ssize_t end, list entries)
    cpdef deliver(self, Entry entry)
    cpdef cancelled(self)
