cimport cython
from leveret.broker.chain cimport Chain
from leveret.broker.consumer cimport Consumer, Rotation
from leveret.broker.message cimport Entry, Message, is_stub, new_entry, renewed_entry
from leveret.broker.pages cimport Page, Pages, Sizes
from leveret.broker.tally cimport Tally
from leveret.broker.work cimport Task, Work

cdef long FLOOD_BYTES, PERSISTENT

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
    cdef public Task expired
    cdef public Task burial
    cdef public dict bindings
    cdef public bint hidden
    cdef public bint is_queue
    cdef public long long mark
    cdef public bint deleted
    cdef public bint deferred
    cdef public bint special
    cdef public Rotation rotation
    cdef public Sizes sizes
    cdef public long long next_seq
    cdef public long long created_at
    cdef public Py_ssize_t ready_count
    cdef public long long ready_bytes
    cdef public Py_ssize_t unacked_count
    cdef public long long unacked_bytes
    cdef public Chain chain
    cdef public object traits
    cdef public object policy
    cdef public object operator_policy
    cdef public object dead
    cdef public object lease
    cdef public object ledger
    cdef public object hold
    cdef public bint paged
    cdef public Pages pages
    cdef public Chain back
    cdef public Py_ssize_t back_count
    cdef public long long back_bytes
    cdef public long long back_seq
    cdef public object loading
    cdef public list handed
    cdef public object shelf
    cdef public long long shelved_bytes
    cdef public long long touched
    cdef object _timers
    cdef public object expiry
    cdef public bint cut
    cdef public object deduplication
    cdef public bint trimming
    cdef public Tally tally
    cdef public object discard

    @cython.locals(entry=Entry, stored=bint)
    cpdef bint accept(self, Message message, long long now) except -1
    @cython.locals(entry=Entry)
    cpdef Entry take(self, bint no_ack)
    cpdef settle(self, Entry entry)
    cpdef reject(self, Entry entry)
    @cython.locals(entry=Entry, kept=list)
    cpdef requeue(self, list entries, bint refused=*)
    @cython.locals(message=Message, entry=Entry)
    cdef bint _come_again(self, Entry old) except -1
    @cython.locals(entry=Entry)
    cpdef restore(self, object entries, long long next_seq)
    cpdef Py_ssize_t purge(self) except -1
    cpdef Py_ssize_t delete(self) except -1
    cpdef subscribe(self, Consumer consumer)
    cpdef cancel(self, Consumer consumer)
    cpdef leave(self, Consumer consumer)
    cpdef resume(self, Consumer consumer)
    @cython.locals(entry=Entry, consumer=Consumer)
    cpdef dispatch(self)
    cdef _defer(self)
    @cython.locals(consumer=Consumer)
    cdef bint _offer(self, Entry entry) except -1
    @cython.locals(size=Py_ssize_t)
    cdef _hand_over(self, Entry entry, Consumer consumer)
    cdef _add(self, Entry entry)
    @cython.locals(entry=Entry)
    cdef Entry _next(self)
    cdef _flood(self, Entry entry)
    cdef _strip(self, Entry entry)
    @cython.locals(entry=Entry)
    cpdef filled(self, list entries)
    cdef bint _low(self)
    cdef _add_behind(self, Entry entry)
    cpdef _load(self)
    @cython.locals(entry=Entry)
    cpdef loaded(self, Page page, list entries, Py_ssize_t lost_count=*, long long lost_bytes=*)
    cpdef lose(self, Entry entry)
    @cython.locals(chain=Chain)
    cdef _take_out(self, Entry entry)
    cdef _reconsider(self)
    cdef _remove_first(self, Entry entry)
    cpdef drop(self, Entry entry, str reason)
    cdef _bury(self, Entry entry, str reason)
    cdef _left(self, Entry entry)
    cpdef buried(self, Entry entry)
    cdef _place_delivered(self, Entry entry)
    cdef _gone(self, Entry entry)
    cdef _forget(self, Entry entry)
    @cython.locals(entry=Entry, stored=bint, held=bint)
    cdef bint _accept_specially(self, Message message, long long now) except -1
    cdef bint _too_much(self, Py_ssize_t count, Py_ssize_t size) except -1
    cdef _trim(self)
    @cython.locals(entry=Entry, count=Py_ssize_t)
    cpdef bint trim_some(self) except -1
    @cython.locals(entry=Entry)
    cdef _watch(self, list entries)
    cdef object _expiring(self)
    @cython.locals(entry=Entry)
    cpdef drop_paged(self, long long seq)
    cpdef bint expire_some(self, long long now) except -1
    @cython.locals(size=Py_ssize_t, consumer=Consumer)
    cdef _release(self, Entry entry)
    cdef _give_back(self, Entry entry)
    cdef bint _worn_out(self, Entry entry) except -1
