cimport cython

@cython.final
cdef class Heartbeat:
    cdef public long long interval_ms
    cdef public long long received_at
    cdef public long long sent_at
    cpdef bint is_missed(self, long long now) except -1
    cpdef bint is_due(self, long long now) except -1
    cpdef next_at(self, long long now)
