cimport cython
from leveret.broker.consumer cimport Consumer, Rotation
from leveret.broker.message cimport Entry, Message, new_entry
from leveret.broker.work cimport Task, Work

cdef int DISCARD_PIECE
cdef long FLOOD_BYTES

cdef class Dispatch(Task):
    cdef public Queue queue
    cpdef bint run(self, Work work) except -1

cdef class Discard(Task):
    cdef Entry _first
    @cython.locals(entry=Entry)
    cpdef bint run(self, Work work) except -1

@cython.final
cdef class Queue:
    cdef public str name
    cdef public str title
    cdef public Work work
    cdef public dict arguments
    cdef public bint durable
    cdef public bint auto_delete
    cdef public object owner
    cdef public Task unused
    cdef public dict bindings
    cdef public bint is_queue
    cdef public long long mark
    cdef public bint deleted
    cdef public bint deferred
    cdef public Rotation rotation
    cdef public long long next_seq
    cdef public Py_ssize_t ready_count
    cdef public long long ready_bytes
    cdef public Py_ssize_t unacked_count
    cdef public long long unacked_bytes
    cdef Entry _head
    cdef Entry _tail
    cdef list _requeued

    @cython.locals(seq="long long", entry=Entry, consumer=Consumer)
    cpdef bint accept(self, Message message, long long now) except -1
    @cython.locals(entry=Entry)
    cpdef Entry take(self, bint no_ack)
    @cython.locals(size=Py_ssize_t, consumer=Consumer)
    cpdef settle(self, Entry entry)
    @cython.locals(entry=Entry)
    cpdef requeue(self, list entries)
    cpdef Py_ssize_t purge(self) except -1
    cpdef Py_ssize_t delete(self) except -1
    cpdef subscribe(self, Consumer consumer)
    cpdef cancel(self, Consumer consumer)
    cpdef resume(self, Consumer consumer)
    @cython.locals(entry=Entry, consumer=Consumer)
    cpdef dispatch(self)
    cdef _defer(self)
    @cython.locals(size=Py_ssize_t)
    cdef _hand_over(self, Entry entry, Consumer consumer)
    @cython.locals(requeued=list, oldest=Entry)
    cdef _put_back(self, list entries)
    cdef _append(self, Entry entry)
    cdef Entry _first(self)
    cdef _remove_first(self, Entry entry)

@cython.locals(following=Entry)
cpdef unchain(Entry entry)
