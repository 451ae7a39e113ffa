from leveret.wire.output cimport Output

cdef int NUMBER_END

cdef class Confirms:
    cdef public long long published
    cdef public long long told
    cdef public list refused
    cdef tuple _frames
    cdef bytes _nack
    cpdef refuse(self)
    cpdef tell(self, Output output)
    cdef _tell_refused(self, Output output)
    cdef _tell_up_to(self, long long number, Output output)
