cimport cython
from leveret.broker.broker cimport Broker
from leveret.broker.work cimport Work
from leveret.protocol.channel cimport Channel
from leveret.protocol.incoming cimport Incoming
from leveret.protocol.heartbeat cimport Heartbeat
from leveret.protocol.session cimport Session
from leveret.wire.frames cimport FrameReader
from leveret.wire.output cimport Output

cdef int HEADER, HANDSHAKE, RUNNING, CLOSING, CLOSED, IGNORING_INPUT, CHANNEL_OPEN

@cython.final
cdef class Connection:
    cdef public Broker broker
    cdef public str name
    cdef public Output output
    cdef public Session session
    cdef public FrameReader reader
    cdef public int state
    cdef public bint ended
    cdef public bint after_large
    cdef public long long connected_at
    cdef public long long tick_at
    cdef public Heartbeat heartbeat
    cdef public long channel_max
    cdef public dict client_properties
    cdef public str mechanism
    cdef public object on_login
    cdef object _handshake
    cdef Channel _channel
    cdef bint _halted
    cdef long long _ack_check_at

    cpdef receive(self, bytes data, long long now)
    @cython.locals(state=int)
    cpdef receive_from(self, bytearray buffer, Py_ssize_t size, long long now)
    cpdef object room(self)
    cpdef receive_in_place(self, Py_ssize_t size, long long now)
    cpdef seen_alive(self, long long now)
    cpdef throttle_changed(self, long long now)
    cpdef go_on(self, long long now)
    cdef _set_time(self, long long now)
    cpdef list take_output(self, long long now)
    @cython.locals(heartbeat=Heartbeat)
    cdef _tick_heartbeat(self, long long now)
    @cython.locals(work=Work)
    cdef _pass(self)
    @cython.locals(session=Session, reader=FrameReader, work=Work, channel=Channel)
    cdef _walk(self)
    @cython.locals(session=Session, channel=Channel)
    cdef bint _fill(self, Incoming incoming) except -1
    @cython.locals(at=Py_ssize_t)
    cdef bint _may_go_on(self, FrameReader reader) except -1
    @cython.locals(channel=Channel, number=int)
    cdef Channel _channel_of(self, FrameReader reader)
    cdef Channel _open(self, int number)
    cdef bytes _on_protocol_header(self, bytes data)
    cdef _on_channel_zero(self, FrameReader reader)
    cdef _on_handshake(self, object handshake, object method)
    cdef _begin_running(self, object handshake)
    cdef _on_frame_while_closing(self, FrameReader reader)
    cdef _close(self, object error)
    cdef _fail(self, object error)
    cdef _ignore_input(self)
    cdef _fail_handshake(self, object handshake, object error)
    cdef _end_channels(self, object done)
