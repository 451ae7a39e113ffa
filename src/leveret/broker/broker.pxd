from leveret.broker.storage cimport Storage
from leveret.broker.work cimport Work

cdef class Broker:
    cdef public object counters
    cdef public object churn
    cdef public object connections
    cdef public object events
    cdef public long long epoch
    cdef public str alarm
    cdef public bint flow
    cdef public bint throttled
    cdef public Work work
    cdef public object settings
    cdef public Storage storage
    cdef public object timers
    cdef public dict replies
    cdef public dict vhosts
    cdef public dict users
    cdef public dict parameters
    cdef public object on_shovel
    cdef public object on_command
    cdef public bint follows
    cdef public object authenticate
    cdef public object guard
    cdef public object tokens
    cdef public object propose
    cdef public object on_unneeded
    cdef public long long reserved_size
    cpdef changed(self)
    cpdef record(self, object command)
