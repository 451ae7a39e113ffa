cdef class Budget:
    cdef public long left
    cdef public long long now
    cdef public object flooded
    cpdef void begin(self)
