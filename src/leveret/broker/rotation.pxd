cimport cython
from leveret.broker.consumer cimport Consumer

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
    @cython.locals(consumer=Consumer)
    cpdef bint takes_octets(self) except -1
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
