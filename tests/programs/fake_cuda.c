/* Stands for libcuda.so.1: one range of host memory is said to be a device's. */
#include <stddef.h>
#include <stdint.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_FOUND = 500, MEMORY_TYPE = 2, DEVICE = 2, HOST = 1 };
static uintptr_t from, to;
static long asked;

void fake_cuda_own(void *start, size_t bytes)
{
    from = (uintptr_t)start;
    to = from + bytes;
}

long fake_cuda_asked(void)
{
    return asked;
}

int cuPointerGetAttribute(void *value, int attribute, uintptr_t pointer)
{
    asked++;
    if (pointer < from || pointer >= to)
        return INVALID_VALUE;
    if (attribute == MEMORY_TYPE)
        *(unsigned *)value = DEVICE;
    return SUCCESS;
}

int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uintptr_t pointer)
{
    for (unsigned i = 0; i < count; i++)
        if (cuPointerGetAttribute(values[i], attributes[i], pointer) != SUCCESS)
            return INVALID_VALUE;
    return SUCCESS;
}

int cuInit(unsigned flags)
{
    (void)flags;
    return SUCCESS;
}

int cuDriverGetVersion(int *version)
{
    *version = 12090;
    return SUCCESS;
}

int cuGetProcAddress_v2(void)
{
    return NOT_FOUND;
}
