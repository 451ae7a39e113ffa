cimport cython
from leveret.broker.message cimport Entry
from leveret.broker.open_page cimport OpenPage
from leveret.store.journal cimport Journal
from leveret.store.records cimport write_numbers

cdef class Ledger:
    cdef Journal _journal
    cdef public long queue_id
    cdef public dict counts
    cdef public object locations
    cdef public long long floor
    cdef public long long moved_in
    cdef public long long live_bytes
    cdef public long long live_count
    cdef public long long written_count
    cdef long long _first
    cdef long long _last
    cdef list _runs
    @cython.locals(location="long long")
    cpdef settle(self, Entry entry)
    @cython.locals(index=Py_ssize_t)
    cpdef settle_octets(self, OpenPage page, Py_ssize_t first)
    cdef _settle(self, long long seq, Py_ssize_t body_size)
    cpdef requeue(self, Entry entry)
    cpdef purge(self, long long last)
    cpdef flush(self, bytearray out)
    cdef _begin(self, long long seq)
