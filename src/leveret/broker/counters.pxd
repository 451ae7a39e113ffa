cimport cython

@cython.final
cdef class Counters:
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
    cdef public dict breakdown

    cpdef Counters breakdown_for(self, Counters other)
    cpdef add(self, Counters other)
