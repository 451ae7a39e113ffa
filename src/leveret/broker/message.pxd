cimport cython

@cython.final
cdef class Origin:
    cdef public str exchange
    cdef public str routing_key
    cdef public bytes address
    cdef public tuple blind

@cython.final
cdef class Message:
    cdef public Origin origin
    cdef public bytes content
    cdef public Py_ssize_t header_size
    cdef public Py_ssize_t body_size
    cdef public Py_ssize_t frame_size
    cdef public long flags
    cdef public long long ttl_ms

@cython.final
cdef class Entry:
    cdef public object queue
    cdef public Message message
    cdef public object consumer
    cdef public Entry next
    cdef public long long seq
    cdef public bint redelivered
    cdef public bint waiting
    cdef public int delivery_count
    cdef public long long expires_at
    cdef public long long location
    cdef public Py_ssize_t tag

@cython.locals(message=Message)
cpdef Message new_message(Origin origin, bytes content, Py_ssize_t header_size, Py_ssize_t body_size, Py_ssize_t frame_size, long flags)

cdef int STUBS_MAX

cpdef bint is_stub(Message message)
cpdef Message stub_of(long flags, Py_ssize_t body_size)

@cython.locals(entry=Entry)
cpdef Entry new_entry(Message message, long long seq)

@cython.locals(entry=Entry)
cpdef Entry renewed_entry(Entry old, Message message, long long seq)
