cimport cython
from leveret.broker.exchange cimport Exchange
from leveret.broker.message cimport Message
from leveret.broker.queue cimport Queue

@cython.final
cdef class Router:
    cdef dict _exchanges
    cdef long long _stamp
    cdef list _keepers
    cdef public bint cacheable
    cpdef list route(self, Exchange exchange, str routing_key, object properties)
    @cython.locals(queues=list, pending=list, at=Py_ssize_t, source=Exchange, found=list)
    cpdef list route_all(self, Exchange exchange, list routing_keys, object properties)
    @cython.locals(queue=Queue)
    cpdef keep(self, Message message, long long now)
    cdef _varies(self, Exchange source, object properties)
    @cython.locals(queue=Queue, exchange=Exchange)
    cdef _reach(self, object destination, list queues, list pending)
    cdef list _alternate(self, Exchange source)
