from leveret.broker.message cimport Entry, Message
from leveret.broker.pages cimport Sizes

cdef int PLACED_MAX

cdef class Log:
    cpdef append(self, Message message, list placed)
    cpdef forget(self, Entry entry)

cdef class Storage:
    cdef Log _log
    cdef Log _spill
    cdef public long long synced
    cdef public long long damaged_count
    cdef public bint can_page
    cdef public Sizes sizes
    cdef Message _placing
    cdef list _placed
    cpdef long long position(self)
    cpdef place(self, Message message, object queue, Entry entry)
    cpdef write_places(self)
    cpdef release(self, Entry entry)
