cimport cython
from leveret.broker.exchange cimport Exchange

cdef unsigned long long MASK, FIRST_FACTOR, SECOND_FACTOR
cdef double STEPS

@cython.final
cdef class Share:
    cdef public object destination
    cdef public unsigned long long seed
    cdef public double weight

cdef class ConsistentHashExchange(Exchange):
    cdef str _header
    cdef str _property
    cdef dict _shares
    cdef list _list
    cpdef list match(self, str routing_key, object properties)
    cpdef list match_all(self, list routing_keys, object properties)
    cpdef check_binding(self, str routing_key, dict arguments)
    cdef object _hashed(self, str routing_key, object properties)
    cpdef _add(self, object binding)
    cpdef _remove(self, object binding)

@cython.locals(best=Share, share=Share, highest=double, score=double, mixed="unsigned long long")
cpdef Share choose(unsigned long long key, list shares)
