/* What several test programs need. */
#ifndef COMMON_H
#define COMMON_H
#include <stdint.h>

/* The byte at an index of a broadcast's message. */
static inline unsigned char expected(int number, int index)
{
    uint32_t mixed = (uint32_t)index * 2654435761u + (uint32_t)number * 97u;
    return (unsigned char)(mixed >> 16);
}

/* Of doubles, for qsort. */
static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
#endif
