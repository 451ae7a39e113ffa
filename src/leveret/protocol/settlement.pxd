cimport cython
from leveret.broker.consumer cimport Consumer
from leveret.broker.dispatch cimport dispatch
from leveret.broker.message cimport Entry
from leveret.broker.queue cimport Queue
from leveret.broker.budget cimport Budget
from leveret.broker.work cimport Task

cdef class Settle(Task):
    cdef bint _rejected
    cdef list _later
    cdef list _entries
    cdef object _done
    cdef Py_ssize_t _at
    @cython.locals(entries=list, end=Py_ssize_t, at=Py_ssize_t, entry=Entry, queue=Queue, waiting=list, consumer=Consumer, last=Consumer, counted=Consumer, since=Py_ssize_t)
    cpdef bint run(self, Budget budget) except -1
    cdef _count(self, Consumer consumer, Py_ssize_t acks)

cdef class Requeue(Task):
    cdef list _entries
    cdef object _done
    cdef Py_ssize_t _at
    cdef bint _by_client
    cdef list _later
    cdef dict _queues
    cdef dict _waiting
    cpdef bint run(self, Budget budget) except -1

cdef _go_on(Queue queue, list later)
