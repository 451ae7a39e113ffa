cimport cython
from leveret.broker.exchange cimport Destinations, Exchange

@cython.final
cdef class Node:
    cdef public dict children
    cdef public Node star
    cdef public Node hash
    cdef public bint is_hash
    cdef public Destinations destinations
    cdef public long long reached_in
    cpdef Node child(self, str word)
    @cython.locals(found=Node, node=Node)
    cpdef Node grow(self, str word)
    cpdef cut(self, str word)

cdef class TopicExchange(Exchange):
    cdef Node _root
    cdef long long _stamp
    cpdef list match(self, str routing_key, object properties)
    @cython.locals(ends=dict, routing_key=str)
    cpdef list match_all(self, list routing_keys, object properties)
    @cython.locals(reached=list, current=list, node=Node, child=Node, word=str)
    cdef list _ends(self, str routing_key)
    @cython.locals(found=list, node=Node)
    cdef list _destinations(self, list ends)
    cdef _reach(self, Node node, list reached)
    @cython.locals(node=Node)
    cpdef _add(self, object binding)
    @cython.locals(node=Node, path=list, words=list)
    cpdef _remove(self, object binding)

@cython.locals(words=list, last=str, word=str)
cpdef list words_of(str pattern)
