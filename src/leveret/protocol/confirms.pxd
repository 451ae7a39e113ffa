from leveret.wire.output cimport Output

cdef class Confirms:
    cdef public long long published
    cdef public long long told
    cdef tuple _frame
    cpdef tell(self, Output output)
