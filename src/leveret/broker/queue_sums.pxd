cimport cython
from leveret.broker.queue cimport Queue

@cython.final
cdef class QueueSums:
    cdef public long long queues
    cdef public long long ready
    cdef public long long unacked
    cdef public long long ready_bytes
    cdef public long long unacked_bytes
    cdef public long long paged
    cdef public long long paged_bytes
    cdef public long long consumers
    @cython.locals(queue=Queue)
    cpdef add(self, dict queues)
