cimport cython
from leveret.broker.counters cimport Counters

cdef class Exchange:
    cdef public str name
    cdef public str title
    cdef public str kind
    cdef public dict arguments
    cdef public bint durable
    cdef public bint auto_delete
    cdef public bint internal
    cdef public str made_by
    cdef public str alternate
    cdef public object policy
    cdef public object operator_policy
    cdef public dict bindings
    cdef public dict inbound
    cdef public bint varies
    cdef public bint deleted
    cdef public bint is_queue
    cdef public long long reached_in
    cdef public long looks
    cdef public Counters counters
    cpdef list match(self, str routing_key, object properties)
    @cython.locals(found=list, routing_key=str)
    cpdef list match_all(self, list routing_keys, object properties)
    cpdef object keeper(self, object properties)
    cpdef check_binding(self, str routing_key, dict arguments)
    cpdef check_publishable(self)
    cpdef bind(self, object binding)
    cpdef unbind(self, object binding)
    cpdef _add(self, object binding)
    cpdef _remove(self, object binding)

@cython.final
cdef class Destinations:
    cdef dict _counts
    cdef list _list
    cpdef add(self, object destination)
    cpdef remove(self, object destination)
    cpdef list as_list(self)

cdef list NOWHERE

cdef class DirectExchange(Exchange):
    cdef dict _by_key
    @cython.locals(destinations=Destinations)
    cpdef list match(self, str routing_key, object properties)
    cpdef _add(self, object binding)
    @cython.locals(destinations=Destinations)
    cpdef _remove(self, object binding)

cdef class FanoutExchange(Exchange):
    cdef Destinations _destinations
    cpdef list match(self, str routing_key, object properties)
    cpdef list match_all(self, list routing_keys, object properties)
    cpdef _add(self, object binding)
    cpdef _remove(self, object binding)

cdef class DefaultExchange(Exchange):
    cdef dict _queues
    cpdef list match(self, str routing_key, object properties)
