cimport cython
from leveret.broker.backlog cimport Backlog
from leveret.broker.consumer cimport Consumer
from leveret.broker.limits cimport Limits
from leveret.broker.message cimport Entry, Message, is_stub, new_entry, renewed_entry
from leveret.broker.open_page cimport OpenPage
from leveret.broker.pages cimport Page, Pages
from leveret.broker.rotation cimport Rotation
from leveret.broker.storage cimport Storage
from leveret.broker.counters cimport Counters
from leveret.broker.work cimport Task, Work

cdef long FLOOD_BYTES, PERSISTENT

@cython.final
cdef class Queue:
    cdef public str name
    cdef public str title
    cdef public Work work
    cdef public Storage storage
    cdef public dict arguments
    cdef public bint durable
    cdef public bint auto_delete
    cdef public object owner
    cdef public Task when_unused
    cdef public Task when_expired
    cdef public Task dead_letter_task
    cdef public Task dispatch_task
    cdef public dict bindings
    cdef public bint hidden
    cdef public bint is_queue
    cdef public long long reached_in
    cdef public bint deleted
    cdef public bint dispatch_deferred
    cdef public bint needs_checks
    cdef public str home
    cdef public bint away
    cdef public Rotation rotation
    cdef public Backlog backlog
    cdef public Limits limits
    cdef public long long next_seq
    cdef public long long created_at
    cdef public long long touched
    cdef public Py_ssize_t unacked_count
    cdef public long long unacked_bytes
    cdef public object settings
    cdef public object policy
    cdef public object operator_policy
    cdef public object dead
    cdef public object queue_expiry
    cdef public object ledger
    cdef public object barrier
    cdef public long keeps_all
    cdef object _timers
    cdef public object message_expiry
    cdef public bint has_cutoffs
    cdef public object deduplication
    cdef public Counters counters
    cdef public object discard

    @cython.locals(entry=Entry)
    cpdef Entry accept(self, Message message, long long now)
    @cython.locals(entry=Entry)
    cpdef Entry accept_for_a_time(self, Message message, long long now, long long ttl_ms)
    cpdef bint is_duplicate(self, Message message, long long now) except -1
    cpdef refuse(self, Message message, long long now)
    cpdef bint must_sync_first(self, Message message) except -1
    @cython.locals(stored=bint)
    cpdef keep(self, Entry entry, long long ttl_ms=*)
    cpdef apply_limits(self, Entry entry, long long ttl_ms)
    @cython.locals(entry=Entry, backlog=Backlog)
    cpdef Entry first(self)
    cpdef remove_first(self, Entry entry)
    @cython.locals(entry=Entry)
    cpdef Entry pass_on(self, Message message, Consumer consumer, long long now)
    cpdef hand_over_new(self, Entry entry, Consumer consumer)
    cpdef hand_over(self, Entry entry, Consumer consumer)
    @cython.locals(first=Py_ssize_t, entries=list, entry=Entry)
    cpdef list hand_over_octets(self, OpenPage page, Py_ssize_t end, Consumer consumer)
    cdef _settle_octets(self, OpenPage page, Py_ssize_t first)
    cdef _begin_unacked(self, Entry entry)
    @cython.locals(entry=Entry)
    cpdef Entry take(self, bint no_ack)
    cpdef settle(self, Entry entry)
    cpdef reject(self, Entry entry)
    @cython.locals(entry=Entry, kept=list)
    cpdef requeue(self, list entries, bint by_client=*)
    @cython.locals(message=Message, entry=Entry)
    cdef bint _requeue_behind(self, Entry old) except -1
    @cython.locals(entry=Entry)
    cpdef restore(self, object entries, long long next_seq)
    cpdef Py_ssize_t purge(self) except -1
    cpdef Py_ssize_t delete(self) except -1
    @cython.locals(entry=Entry)
    cpdef loaded(self, Page page, list entries, Py_ssize_t lost_count=*, long long lost_bytes=*)
    cpdef bint takes_octets(self) except -1
    cpdef opened(self, Page page, OpenPage octets)
    @cython.locals(entry=Entry)
    cpdef filled(self, list entries)
    cpdef lose(self, Entry entry)
    cpdef drop(self, Entry entry, str reason)
    cdef _dead_letter(self, Entry entry, str reason)
    cdef _forget_key(self, Entry entry)
    cpdef dead_letter_published(self, Entry entry)
    cdef _settle_stored(self, Entry entry)
    cdef _forget_unacked(self, Entry entry)
    cdef _trim(self)
    @cython.locals(entry=Entry)
    cdef _watch(self, list entries)
    cdef object _expiring(self)
    cpdef drop_paged(self, long long seq)
    cpdef bint expire_some(self, long long now) except -1
    cpdef defer_dispatch(self)
    @cython.locals(size=Py_ssize_t, consumer=Consumer)
    cdef _end_unacked(self, Entry entry)
    cdef _return_unacked(self, Entry entry)
    cdef bint _over_delivery_limit(self, Entry entry) except -1
