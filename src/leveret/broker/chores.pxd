cimport cython
from leveret.broker.message cimport Entry
from leveret.broker.work cimport Task, Work

cdef int DISCARD_PIECE, PAGE_COST

cdef class Dispatch(Task):
    cdef public object queue
    cpdef bint run(self, Work work) except -1

cdef class Expire(Task):
    cdef object _queue
    cpdef bint run(self, Work work) except -1

cdef class Trim(Task):
    cdef object _queue
    cpdef bint run(self, Work work) except -1

cdef class Discard(Task):
    cdef public bint done
    cdef list _heads
    cdef object _ledger
    cdef list _pages
    @cython.locals(entry=Entry)
    cpdef bint run(self, Work work) except -1
