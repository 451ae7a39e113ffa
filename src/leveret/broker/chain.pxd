cimport cython
from leveret.broker.message cimport Entry, is_stub

cdef int TOMBSTONES_MAX

cdef class Chain:
    cdef Entry _head
    cdef Entry _tail
    cdef list _requeued
    cdef Py_ssize_t _tombstones
    cpdef append(self, Entry entry)
    cpdef Entry first(self)
    cpdef remove(self, Entry entry)
    cpdef forget(self, Entry entry, Py_ssize_t left)
    @cython.locals(entry=Entry, requeued=list, last=Entry)
    cpdef put_back(self, list entries)
    @cython.locals(entry=Entry)
    cpdef list entries(self)
    @cython.locals(entry=Entry, requeued=Entry, found=list)
    cpdef list span(self, Py_ssize_t offset, Py_ssize_t count)
    @cython.locals(entry=Entry, found=list)
    cpdef list stubs(self, Py_ssize_t limit, long long body_bytes)
    @cython.locals(entry=Entry, following=Entry, found=list)
    cpdef list cut_off(self)
    cpdef join(self, Chain other)
    @cython.locals(heads=list)
    cpdef list detach(self)
    @cython.locals(entry=Entry, requeued=list)
    cdef _skip_tombstones(self)
    cdef _sweep(self)

cdef class Returns(Chain):
    @cython.locals(entry=Entry)
    cpdef put_back(self, list entries)

cdef class Priorities(Chain):
    cdef int _limit
    cdef int _highest
    cdef list _levels
    cpdef append(self, Entry entry)
    @cython.locals(entry=Entry, chain=Chain)
    cpdef Entry first(self)
    @cython.locals(chain=Chain)
    cpdef remove(self, Entry entry)
    cpdef forget(self, Entry entry, Py_ssize_t left)
    cpdef put_back(self, list entries)
    cpdef list entries(self)
    cpdef list span(self, Py_ssize_t offset, Py_ssize_t count)
    cpdef list detach(self)
    @cython.locals(level=int)
    cdef Chain _level(self, Entry entry)

@cython.locals(following=Entry)
cpdef unchain(Entry entry)
