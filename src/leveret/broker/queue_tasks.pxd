cimport cython
from leveret.broker.consumer cimport Consumer
from leveret.broker.message cimport Entry
from leveret.broker.pages cimport Page
from leveret.broker.budget cimport Budget
from leveret.broker.work cimport Task

cdef int DISCARD_PIECE, FREED_FOR_ONE, FAREWELL_PIECE, FAREWELL_COST

cdef class Farewell(Task):
    cdef list _consumers
    cdef Py_ssize_t _at
    @cython.locals(consumer=Consumer)
    cpdef bint run(self, Budget budget) except -1

cdef class Expire(Task):
    cdef object _queue
    cpdef bint run(self, Budget budget) except -1

cdef class Discard(Task):
    cdef public bint done
    cdef object _storage
    cdef list _heads
    cdef object _settler
    cdef list _pages
    @cython.locals(entry=Entry, page=Page)
    cpdef bint run(self, Budget budget) except -1
