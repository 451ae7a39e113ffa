cimport cython
from leveret.broker.consumer cimport Consumer, Window
from leveret.broker.dispatch cimport dispatch
from leveret.protocol.session cimport Session

@cython.final
cdef class Consumers:
    cdef int _number
    cdef Session _session
    cdef Py_ssize_t _turn
    cdef public dict by_tag
    cdef public object for_replies
    cdef public object held_cancels
    cdef public Window prefetch
    cdef public Window channel_window
    cpdef list everyone(self)
    @cython.locals(consumers=list, waiting=list, first=Py_ssize_t, consumer=Consumer)
    cpdef resume(self)
    cpdef hold(self)
