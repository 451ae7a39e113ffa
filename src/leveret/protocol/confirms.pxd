from leveret.broker.storage cimport Storage
from leveret.broker.tally cimport Tally
from leveret.wire.output cimport Output

cdef int NUMBER_END

cdef class Confirms:
    cdef public long long published
    cdef public long long told
    cdef public list refused
    cdef public bint persistent
    cdef list _waiting
    cdef tuple _frames
    cdef Tally _tally
    cdef bytes _nack
    cpdef refuse(self)
    cpdef tell(self, Output output, Storage storage)
    cdef long long _stored(self, Storage storage)
    cdef _tell_refused(self, Output output, long long limit)
    cdef _tell_up_to(self, long long number, Output output)
