cimport cython
from leveret.broker.storage cimport Storage

cdef class Task:
    cpdef bint run(self, Work work) except -1

cdef class Work:
    cdef public long left
    cdef public long long now
    cdef public object flooded
    cdef public Storage storage
    cdef list _tasks
    cdef Py_ssize_t _head
    cpdef void add(self, Task task)
    cpdef void begin(self)
    @cython.locals(tasks=list)
    cpdef bint drain(self) except -1
    cdef void _forget_done(self)
