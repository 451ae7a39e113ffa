cimport cython
from leveret.broker.consumer cimport Consumer
from leveret.broker.message cimport Entry, Message
from leveret.broker.open_page cimport OpenPage
from leveret.broker.queue cimport Queue
from leveret.broker.budget cimport Budget
from leveret.broker.work cimport Task

@cython.locals(entry=Entry, consumer=Consumer)
cpdef bint push(Queue queue, Message message, long long now) except -1
cpdef bint push_for_later(Queue queue, Message message, long long now) except -1
@cython.locals(entry=Entry, consumer=Consumer, ttl_ms="long long")
cdef bint _push_within_limits(Queue queue, Message message, long long now) except -1
cdef Consumer _who_can_take(Queue queue, Message message)
cdef _reconsider(Queue queue)
@cython.locals(entry=Entry, consumer=Consumer)
cpdef dispatch(Queue queue)
@cython.locals(page=OpenPage, budget=Budget, first=Py_ssize_t, end=Py_ssize_t, is_alone=bint, consumer=Consumer)
cdef _pass_octets(Queue queue)
@cython.locals(end=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t, fits=bint)
cdef Py_ssize_t _take_room(Consumer consumer, OpenPage page, Py_ssize_t limit) except -1
@cython.locals(size=Py_ssize_t)
cdef _send(Queue queue, Entry entry, Consumer consumer)

cdef class Dispatch(Task):
    cdef public Queue queue
    cpdef bint run(self, Budget budget) except -1

cpdef subscribe(Queue queue, Consumer consumer)
cpdef cancel(Queue queue, Consumer consumer)
cpdef unsubscribe(Queue queue, Consumer consumer)
cpdef resume(Queue queue, Consumer consumer)
