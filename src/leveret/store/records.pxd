cimport cython
from leveret.broker.message cimport Message, Origin, new_message
from leveret.broker.open_page cimport OpenPage
from leveret.octets cimport Octets, Room, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at

cdef int MESSAGE, HEAD_SIZE, PLACES_AT, PLACE_SIZE, NUMBERS_SIZE, DELIVERED, NUMBER_MASK, KIND_MASK
cdef int BLOCK_BITS
cdef long COUNT_MAX
cdef list _ZEROS, _PADDING
cdef dict _LAST

@cython.final
cdef class Place:
    cdef public bint delivered
    cdef public long long delivery_count
    cdef public long long expires_at
    cdef public long number
    cdef public long long queue
    cdef public long long seq

cpdef Py_ssize_t place_offset(Py_ssize_t offset, Py_ssize_t number)
@cython.locals(origin=Origin, address=bytes, content=bytes, size=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t, p=Room)
cpdef Py_ssize_t write_message(bytearray out, Message message, Py_ssize_t count, long long group) except -1
@cython.locals(address_size=Py_ssize_t, start=Py_ssize_t, rest=bytes, size=Py_ssize_t, length=Py_ssize_t, to=Py_ssize_t)
cpdef copy_message(bytearray out, bytes data, Py_ssize_t at, Py_ssize_t count, Py_ssize_t new_count)
@cython.locals(p=Room)
cpdef write_place(bytearray out, Py_ssize_t at, long long queue, long long seq, long long expires_at, long long delivery_count, long number)
@cython.locals(at=Py_ssize_t, p=Room)
cpdef write_numbers(bytearray out, int kind, long long group, long long queue, long long first, long long last)
@cython.locals(p=Octets, length="long long")
cpdef Py_ssize_t record_size(bytes data, Py_ssize_t at) except -1
@cython.locals(p=Octets)
cpdef tuple read_head(bytes data, Py_ssize_t at)
@cython.locals(upper="long long")
cpdef long long group_at(Octets p, Py_ssize_t at) noexcept
@cython.locals(p=Octets, number="long long", at=Py_ssize_t, length="long long")
cpdef list first_records(object data, Py_ssize_t start, Py_ssize_t end, long long offset)
@cython.locals(p=Octets)
cpdef tuple read_numbers(bytes data, Py_ssize_t at)
@cython.locals(p=Octets)
cpdef Place read_place(bytes data, Py_ssize_t at)
@cython.locals(p=Octets, header_size=Py_ssize_t, frame_size=Py_ssize_t, body_size=Py_ssize_t, address_at=Py_ssize_t, content_at=Py_ssize_t, end=Py_ssize_t, message=Message, origin=Origin)
cpdef Message read_message(bytes data, Py_ssize_t at)
@cython.locals(p=Octets, header_size=Py_ssize_t, frame_size=Py_ssize_t, body_size=Py_ssize_t, address_at=Py_ssize_t, content_at=Py_ssize_t, size=Py_ssize_t)
cpdef bint describe_message(bytes data, Py_ssize_t at, long long seq, long long location, OpenPage page) except -1
cpdef check_room(Py_ssize_t size, Py_ssize_t at, Py_ssize_t length)
@cython.locals(frames=Py_ssize_t)
cpdef Py_ssize_t content_size(Py_ssize_t header_size, Py_ssize_t body_size, Py_ssize_t frame_size)
cpdef long long body_size_at(bytes data, Py_ssize_t at) except -1
cpdef Py_ssize_t content_size_at(bytes data, Py_ssize_t at)
@cython.locals(origin=Origin, name_end=Py_ssize_t, key_end=Py_ssize_t)
cpdef Origin origin_of(bytes address)
@cython.locals(out=bytearray, at=Py_ssize_t)
cpdef bytes blind_address(Origin origin)
@cython.locals(size=Py_ssize_t)
cpdef tuple blind_keys(bytes address, Py_ssize_t at)
