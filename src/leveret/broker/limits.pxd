cimport cython
from leveret.broker.backlog cimport Backlog
from leveret.broker.message cimport Entry
from leveret.broker.budget cimport Budget
from leveret.broker.work cimport Task

@cython.final
cdef class Limits:
    cdef object _max_length
    cdef object _max_bytes
    cdef str _overflow
    cdef bint _trimming
    cpdef bint refuses(self, Backlog backlog, Py_ssize_t body_size) except -1
    cdef bint _exceeded_with(self, Backlog backlog, Py_ssize_t count, Py_ssize_t size) except -1
    cpdef trim(self, object queue)
    @cython.locals(backlog=Backlog, entry=Entry, count=Py_ssize_t)
    cpdef bint trim_some(self, object queue) except -1

cdef class Trim(Task):
    cdef object _queue
    cpdef bint run(self, Budget budget) except -1
