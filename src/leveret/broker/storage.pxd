from leveret.broker.message cimport Message

cdef class Storage:
    cdef public long long synced
    cdef public bint pages
    cpdef long long position(self)
    cpdef append(self, Message message, list placed)
