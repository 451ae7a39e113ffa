cimport cython
from leveret.broker.consumer cimport Consumer
from leveret.broker.message cimport Entry, Message, Origin
from leveret.broker.counters cimport Counters
from leveret.protocol.session cimport Session
from leveret.protocol.unacked cimport Unacked
from leveret.wire.output cimport Output

cdef class Subscriber(Consumer):
    cdef int _channel
    cdef Session _session
    cdef Output _output
    cdef Unacked _unacked
    cdef Counters _channel_counters
    cdef object _on_cancelled
    cdef public object trace
    cdef Origin _origin
    cdef bytes _frame
    cdef Py_ssize_t _tag_end
    cpdef bint can_take(self, Py_ssize_t size)
    cpdef bint hurrying(self, long long now)
    @cython.locals(message=Message, tag=Py_ssize_t, output=Output)
    cpdef deliver(self, Entry entry)
    cpdef cancelled(self)
    cdef _prepare(self, Origin origin)
