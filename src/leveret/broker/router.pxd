cimport cython
from leveret.broker.dispatch cimport push
from leveret.broker.exchange cimport Exchange
from leveret.broker.message cimport Message
from leveret.broker.queue cimport Queue
from leveret.broker.work cimport Work

cdef int LOOKS

@cython.final
cdef class Router:
    cdef dict _exchanges
    cdef long long _stamp
    cdef list _keepers
    cdef Work _work
    cdef public bint cacheable
    cpdef list route(self, Exchange exchange, str routing_key, object properties)
    @cython.locals(queues=list, pending=list, at=Py_ssize_t, source=Exchange, alternate=Exchange, found=list, looks=long, live=bint)
    cpdef list route_all(self, Exchange exchange, list routing_keys, object properties)
    @cython.locals(queue=Queue)
    cpdef give_to_keepers(self, Message message, long long now)
    cdef _varies(self, Exchange source, object properties)
    @cython.locals(queue=Queue, exchange=Exchange)
    cdef bint _reach(self, object destination, list queues, list pending) except -1
