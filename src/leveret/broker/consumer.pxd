cimport cython
from leveret.broker.message cimport Entry
from leveret.broker.tally cimport Tally

@cython.final
cdef class Window:
    cdef public long count_limit
    cdef public long long size_limit
    cdef public long count
    cdef public long long size
    cpdef bint fits(self, Py_ssize_t size)
    cpdef bint counts(self)
    cpdef bint limited(self)
    cpdef void take(self, Py_ssize_t size)
    cpdef void free(self, Py_ssize_t size)

cdef class Consumer:
    cdef public str tag
    cdef public Tally tally
    cdef public bint no_ack
    cdef public bint exclusive
    cdef public bint active
    cdef public bint subscribed
    cdef public long priority
    cdef public Window window
    cdef public Window shared
    cdef public dict arguments
    cdef public object queue
    cpdef bint can_take(self, Py_ssize_t size)
    cpdef bint hurrying(self, long long now)
    cpdef deliver(self, Entry entry)
    cpdef cancelled(self)

@cython.final
cdef class Level:
    cdef public long priority
    cdef public list active
    cdef public Py_ssize_t turn

@cython.final
cdef class Rotation:
    cdef public list everyone
    cdef public list levels
    cdef public list oversized
    cdef public Py_ssize_t active_count
    cdef public bint single
    cdef public bint in_order
    cdef public Consumer chosen
    cdef public bint paused
    cpdef add(self, Consumer consumer)
    cpdef remove(self, Consumer consumer)
    @cython.locals(consumer=Consumer)
    cpdef list empty(self)
    cdef Consumer _successor(self)
    @cython.locals(level=Level)
    cpdef activate(self, Consumer consumer)
    @cython.locals(waiting=list, consumer=Consumer)
    cpdef revive(self)
    @cython.locals(level=Level, active=list, consumer=Consumer)
    cpdef Consumer next(self, Py_ssize_t size)
    @cython.locals(level=Level, consumer=Consumer)
    cpdef pause(self)
    @cython.locals(consumer=Consumer)
    cpdef unpause(self)
    @cython.locals(level=Level)
    cdef Level _level(self, long priority)
    @cython.locals(at=Py_ssize_t)
    cdef _deactivate(self, Level level, Consumer consumer)
