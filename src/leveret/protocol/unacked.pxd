cimport cython
from leveret.broker.consumer cimport Consumer
from leveret.broker.message cimport Entry

@cython.final
cdef class Unacked:
    cdef public Py_ssize_t next_tag
    cdef public Py_ssize_t count
    cdef Py_ssize_t _first
    cdef Py_ssize_t _head
    cdef list _entries
    cdef dict _old
    cdef Py_ssize_t _reads
    cdef Py_ssize_t _unseen
    cpdef Py_ssize_t skip(self)
    cpdef Py_ssize_t push(self, Entry entry, Py_ssize_t reads) except -1
    @cython.locals(tag=Py_ssize_t, entries=list)
    cpdef Py_ssize_t record(self, Entry entry) except -1
    @cython.locals(at=Py_ssize_t, entries=list, entry=Entry)
    cpdef Entry take(self, Py_ssize_t tag)
    @cython.locals(at=Py_ssize_t, entries=list, entry=Entry)
    cpdef Entry take_of(self, Consumer consumer, Py_ssize_t tag)
    @cython.locals(last=Entry, entry=Entry, found=list, entries=list, at=Py_ssize_t, end=Py_ssize_t)
    cpdef list take_up_to(self, Py_ssize_t tag, Py_ssize_t reads)
    @cython.locals(everything=list, seen=list, unseen=list, entry=Entry)
    cdef list _take_seen(self, Py_ssize_t reads)
    @cython.locals(found=list, entry=Entry)
    cpdef list take_all(self)
    @cython.locals(entry=Entry)
    cpdef restore(self, list entries)
    cdef Entry _take_old(self, Py_ssize_t tag)
    cdef list _take_old_below(self, Py_ssize_t tag)
    @cython.locals(entries=list, live=Py_ssize_t)
    cdef _tidy(self, Py_ssize_t tag)
    @cython.locals(tag=Py_ssize_t, entry=Entry)
    cdef _set_aside(self)
    cdef _restart(self, Py_ssize_t tag)
