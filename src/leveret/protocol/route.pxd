cimport cython
from leveret.broker.broker cimport Broker
from leveret.broker.exchange cimport Exchange
from leveret.broker.message cimport Message, Origin
from leveret.broker.queue cimport Queue
from leveret.broker.router cimport Router
from leveret.broker.counters cimport Counters
from leveret.protocol.session cimport Session

cdef int ROUTES_MAX, TOLD_AT_ONCE, LOOK_UP_COST, OCTETS_A_UNIT, MANDATORY, IMMEDIATE
cdef unsigned long BASIC_PUBLISH

@cython.final
cdef class Route:
    cdef public Origin origin
    cdef public bint mandatory
    cdef public bint varies
    cdef public bint traced
    cdef public long long count
    cdef public long long lost
    cdef public long long elsewhere
    cdef public list queues
    cdef public Counters counters

@cython.final
cdef class Routes:
    cdef Session _session
    cdef Broker _broker
    cdef object _vhost
    cdef public Counters counters
    cdef public long long epoch
    cdef dict _routes
    cdef public bytes last_method
    cdef public Route last
    @cython.locals(route=Route)
    cpdef Route find(self, bytes method)
    @cython.locals(name_end=Py_ssize_t, key_end=Py_ssize_t, name=str, key=str, exchange=Exchange, router=Router, route=Route)
    cdef Route _look_up(self, bytes method)
    @cython.locals(route=Route)
    cpdef flush_counts(self)
    @cython.locals(part=Counters, straight="long long", queue=Queue)
    cdef object _flush_counts_of(self, Route route, object last)
    @cython.locals(queue=Queue, part=Counters)
    cpdef count_elsewhere(self, Route route, list queues)
    @cython.locals(router=Router)
    cpdef list again(self, Route route, Message message)
    cpdef tuple copied(self, Route route, Message message)
    cpdef object properties(self, Message message)
