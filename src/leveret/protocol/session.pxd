cimport cython
from leveret.broker.broker cimport Broker
from leveret.broker.work cimport Task
from leveret.protocol.confirms cimport Confirms
from leveret.wire.output cimport Output

cdef class Session:
    cdef public Broker broker
    cdef public object vhost
    cdef public object user
    cdef public object rights
    cdef public object on_shut
    cdef public str connection_name
    cdef public str address
    cdef public Output output
    cdef public long long now
    cdef public Py_ssize_t reads
    cdef public unsigned long method_index
    cdef public Task pending
    cdef public list answers
    cdef public list confirming
    cdef public dict channels
    cdef public list exclusive_queues
    cdef public dict capabilities
    cdef public long long incomplete_size
    cdef public long long reserved_size
    cdef public object filling
    cdef public bint blocked
    cdef bint _told
    cdef Py_ssize_t _prune_at
    cpdef check_throttle(self)
    cpdef tell_alarm(self)
    cpdef do(self, Task task)
    cpdef bint go_on(self) except -1
    @cython.locals(confirms=Confirms, confirming=list)
    cpdef tell_confirms(self)
    cpdef bint is_waiting(self)
    cpdef answer(self, int channel, object method, bint stored)
    cdef _give_answers(self)
    cpdef count_incomplete(self, Py_ssize_t size)
    cpdef bint reserve(self, Py_ssize_t size)
    cpdef unreserve(self, Py_ssize_t size)
