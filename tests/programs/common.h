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

/* A broadcast's message at its root, and at any other rank what no message is. */
static inline void fill(unsigned char *buffer, int bytes, int number, int is_root)
{
    for (int i = 0; i < bytes; i++)
        buffer[i] = is_root ? expected(number, i) : 0xee;
}

/* Where the first byte is that is not the message's; -1 where all are. */
static inline int first_wrong(const unsigned char *buffer, int bytes, int number)
{
    for (int i = 0; i < bytes; i++)
        if (buffer[i] != expected(number, i))
            return i;
    return -1;
}

/* Of doubles, for qsort. */
static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
#endif
