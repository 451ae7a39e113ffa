cimport cython
from leveret.broker.budget cimport Budget
from leveret.broker.storage cimport Storage

cdef class Task:
    cpdef bint run(self, Budget budget) except -1

cdef class Work:
    cdef public Budget budget
    cdef public Storage storage
    cdef list _tasks
    cdef Py_ssize_t _head
    cpdef void add(self, Task task)
    @cython.locals(tasks=list, budget=Budget)
    cpdef bint drain(self) except -1
    cdef void _forget_done(self)
