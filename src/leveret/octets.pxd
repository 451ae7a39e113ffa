cimport cython

ctypedef unsigned char* Room
ctypedef const unsigned char* Octets

cpdef void put_u16(Room p, Py_ssize_t at, long value) noexcept
cpdef void put_u32(Room p, Py_ssize_t at, long long value) noexcept
cpdef void put_u64(Room p, Py_ssize_t at, long long value) noexcept
@cython.locals(value=long)
cpdef long u16_at(Octets p, Py_ssize_t at) noexcept
@cython.locals(value="long long")
cpdef long long u32_at(Octets p, Py_ssize_t at) noexcept
@cython.locals(high="long long")
cpdef long long u64_at(Octets p, Py_ssize_t at) noexcept
