cimport cython
from leveret.broker.budget cimport Budget
from leveret.broker.consumer cimport Consumer
from leveret.broker.message cimport Entry
from leveret.broker.queue cimport Queue
from leveret.protocol.unacked cimport Unacked
from leveret.wire.frames cimport FrameReader

ctypedef const unsigned char* Octets

cdef int FRAME_METHOD, FRAME_END, ACK_SIZE, BASIC_CLASS, ACK_METHOD
cdef Py_ssize_t ACK_FRAME_SIZE

@cython.locals(floor=Py_ssize_t, count=Py_ssize_t, tag=Py_ssize_t, entry=Entry)
cpdef Py_ssize_t settle_run(FrameReader reader, int number, Unacked unacked, Queue queue, Consumer consumer, Budget budget) except -1

@cython.locals(p=Octets, at=Py_ssize_t, tag=Py_ssize_t)
cpdef Py_ssize_t next_ack(FrameReader reader, int number) except -1
