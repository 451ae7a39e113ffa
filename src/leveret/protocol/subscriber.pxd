cimport cython
from leveret.broker.consumer cimport Consumer
from leveret.broker.message cimport Entry, Message, Origin
from leveret.broker.counters cimport Counters
from leveret.broker.open_page cimport OpenPage
from leveret.protocol.session cimport Session
from leveret.protocol.unacked cimport Unacked
from leveret.wire.output cimport Octets, Output, Room, copy, is_copied

cdef int FRAME_OVERHEAD
cdef Py_ssize_t RUN_SIZE

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
    cpdef bint takes_octets(self) except -1
    @cython.locals(end=Py_ssize_t, last=Py_ssize_t, origin=Origin, size=Py_ssize_t)
    cpdef Py_ssize_t run_end(self, OpenPage page, Py_ssize_t limit) except -1
    @cython.locals(origin=Origin)
    cpdef deliver_octets(self, OpenPage page, Py_ssize_t first, Py_ssize_t end, list entries)
    cdef Py_ssize_t _tag(self, list entries, Py_ssize_t at) except -1
    @cython.locals(output=Output, start=Py_ssize_t, p=Octets, content=bytes, header_size=Py_ssize_t, body_size=Py_ssize_t, frame_size=Py_ssize_t)
    cdef _refer(self, OpenPage page, Py_ssize_t index, list entries)
    @cython.locals(frame=bytes, size=Py_ssize_t, output=Output, at=Py_ssize_t, r=Room, p=Octets, f=Octets, index=Py_ssize_t, stop=Py_ssize_t, number=Py_ssize_t, last=Py_ssize_t, start=Py_ssize_t)
    cdef _copy_run(self, OpenPage page, Py_ssize_t first, Py_ssize_t end, list entries)
    cpdef cancelled(self)
    cdef _prepare(self, Origin origin)
