cimport cython

@cython.final
cdef class Tally:
    cdef public long long publish
    cdef public long long confirm
    cdef public long long return_unroutable
    cdef public long long drop_unroutable
    cdef public long long deliver
    cdef public long long deliver_no_ack
    cdef public long long redeliver
    cdef public long long get
    cdef public long long get_no_ack
    cdef public long long get_empty
    cdef public long long ack
    cdef public long long publish_in
    cdef public long long publish_out
    cdef public dict parts

    cpdef Tally part(self, Tally other)
    cpdef add(self, Tally other)
