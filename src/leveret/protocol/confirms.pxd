cimport cython
from leveret.broker.storage cimport Storage
from leveret.broker.counters cimport Counters
from leveret.wire.output cimport Output

cdef int NUMBER_END

cdef class Confirms:
    cdef public long long published
    cdef public long long told
    cdef public list refused
    cdef public Storage storage
    cdef long long _first
    cdef list _waiting
    cdef tuple _frames
    cdef Counters _counters
    cdef bytes _nack
    cpdef refuse(self)
    cpdef wait_for(self, Storage storage)
    cpdef tell(self, Output output)
    cdef _wait(self)
    @cython.locals(storage=Storage, position="long long", first="long long")
    cdef long long _stored(self) except -1
    cdef _tell_refused(self, Output output, long long limit)
    cdef _tell_up_to(self, long long number, Output output)
