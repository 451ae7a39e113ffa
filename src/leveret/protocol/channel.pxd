cimport cython
from leveret.broker.broker cimport Broker
from leveret.broker.consumer cimport Consumer, Window
from leveret.broker.dispatch cimport dispatch, push, resume
from leveret.broker.message cimport Entry, Message, Origin, new_message
from leveret.broker.queue cimport Queue
from leveret.broker.counters cimport Counters
from leveret.protocol.ack_run cimport settle_run
from leveret.protocol.confirms cimport Confirms
from leveret.protocol.incoming cimport Incoming
from leveret.protocol.consumers cimport Consumers
from leveret.protocol.route cimport Route, Routes
from leveret.protocol.session cimport Session
from leveret.protocol.unacked cimport Unacked
from leveret.wire.content cimport check_properties
from leveret.wire.frames cimport FrameReader
from leveret.wire.output cimport Output

ctypedef const unsigned char* Octets

cdef int BASIC_CLASS, FANOUT_TASK_FROM, OCTETS_A_UNIT, CHANNEL_STARTING, CHANNEL_OPEN, CHANNEL_CLOSING
cdef int FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT, FRAME_END, FRAME_OVERHEAD, HEADER_MIN_SIZE
cdef unsigned long BASIC_PUBLISH, BASIC_ACK, BASIC_NACK, BASIC_REJECT
cdef long long PAST
cdef long FLAG_EXPIRATION, FLAG_HEADERS, FLAG_USER_ID, FLAG_REPLY_TO, COPIED, PERSISTENT

@cython.final
cdef class Channel:
    cdef public int number
    cdef public Session session
    cdef public Broker broker
    cdef public object vhost
    cdef public Output output
    cdef public int state
    cdef public bint stopped
    cdef public Incoming incoming
    cdef public Confirms confirms
    cdef public object transaction
    cdef public Unacked unacked
    cdef public object deadlines
    cdef public Consumers consumers
    cdef public Window channel_window
    cdef public str last_queue_name
    cdef public list queues_waiting
    cdef public Counters counters
    cdef public Routes routes
    cdef Py_ssize_t _body_max

    @cython.locals(kind=int, p=Octets, start=Py_ssize_t, index="unsigned long")
    cpdef on_frame(self, FrameReader reader)
    cdef _on_other_frame(self, int kind, FrameReader reader)
    cdef _on_cold_method(self, object method)
    cdef _on_method_unless_open(self, unsigned long index, FrameReader reader)
    cdef _on_odd_frame(self, FrameReader reader)
    cdef _fail_out_of_order(self, FrameReader reader)
    @cython.locals(p=Octets, start=Py_ssize_t, stop=Py_ssize_t, method=bytes, number=int, at=Py_ssize_t, header_end=Py_ssize_t, header_size=Py_ssize_t, body_size=Py_ssize_t, end=Py_ssize_t, body=Py_ssize_t)
    cdef _on_basic_publish(self, FrameReader reader)
    cdef _begin(self, bytes method)
    @cython.locals(payload=bytes, incoming=Incoming)
    cdef _on_header(self, FrameReader reader)
    @cython.locals(incoming=Incoming)
    cdef _on_body(self, FrameReader reader)
    cpdef finish(self, Incoming incoming)
    @cython.locals(routes=Routes, route=Route, flags=long, queues=list, message=Message, queue=Queue, now="long long")
    cdef _publish(self, bytes method, bytes content, Py_ssize_t header_size, Py_ssize_t body_size, Py_ssize_t frame_size)
    cdef _go_nowhere(self, Route route, Message message)
    @cython.locals(entry=Entry, part=Counters)
    cpdef count_acks(self, list entries, int how)
    cpdef refuse(self)
    @cython.locals(confirms=Confirms, queue=Queue)
    cdef _await_storage(self, list queues, long flags)
    @cython.locals(confirms=Confirms)
    cdef _count_confirm(self)
    @cython.locals(queue=Queue)
    cdef _fan_out(self, Message message, list queues, long long now)
    cdef _check_properties(self, Message message)
    @cython.locals(origin=Origin)
    cpdef return_message(self, Message message)
    cpdef write_content(self, Message message)
    @cython.locals(p=Octets, start=Py_ssize_t, tag="unsigned long long")
    cdef _on_basic_ack(self, FrameReader reader)
    @cython.locals(entry=Entry, queue=Queue, consumer=Consumer, part=Counters, count=Py_ssize_t)
    cdef _settle_one(self, unsigned long long tag, FrameReader reader)
    cdef Py_ssize_t _settle_run(self, FrameReader reader, Queue queue, Consumer consumer) except -1
    cdef _settle_up_to(self, unsigned long long tag)
    @cython.locals(tag="unsigned long long")
    cdef _on_basic_nack(self, unsigned long index, FrameReader reader)
    cpdef settle(self, list entries, int how)
    cpdef after_settling(self)
