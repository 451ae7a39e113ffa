from leveret.broker.message cimport Message
from leveret.broker.pages cimport Sizes

cdef class Storage:
    cdef public long long synced
    cdef public long long damaged_count
    cdef public bint pages
    cdef public Sizes sizes
    cpdef long long position(self)
    cpdef append(self, Message message, list placed)
