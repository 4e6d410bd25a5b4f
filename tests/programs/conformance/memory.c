/* Where a buffer may lie. */
#define _GNU_SOURCE
#include "rows.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 1 << 17 };

/* Memory that ends where no more is, and begins so. */
static unsigned char *fenced(size_t page)
{
    unsigned char *all = mmap(NULL, ROOM + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(all + page, ROOM, PROT_READ | PROT_WRITE);
    return all + page;
}

static void at_the_edge(void)
{
    static const int sizes[] = {1, 100, 1025, 4096, 5000, 70000};
    size_t page = sysconf(_SC_PAGESIZE);
    unsigned char *room = fenced(page);
    channel c = open_channel(MPI_COMM_WORLD);
    for (int i = 0; i < 36; i++) {
        int bytes = sizes[i % 6], root = i / 6 % c.size;
        uint32_t number = ++c.number;
        unsigned char *buffer = i % 2 ? room : room + ROOM - bytes;
        fill_message(buffer, c.rank == root ? number : ~number, bytes);
        if (broadcast(&c, buffer, bytes, MPI_BYTE, root) != MPI_SUCCESS)
            wrong("an error");
        check_message(&c, buffer, number, bytes);
    }
    munmap(room - page, ROOM + 2 * page);
    close_channel(&c);
}

/* The sender's memory may be a constant, or a file that is mapped to be read. */
static void read_only(void)
{
#ifndef OPEN_MPI
    /* MPICH and its relatives send the root what it has, by way of the first rank of its node. */
    skip("this MPI writes to the root's buffer");
#else
    enum { LONG = 70000 };
    size_t page = sysconf(_SC_PAGESIZE);
    unsigned char *room = fenced(page);
    channel c = open_channel(MPI_COMM_WORLD);
    MPI_Datatype holes;
    MPI_Type_vector(100, 3, 8, MPI_INT, &holes);
    MPI_Type_commit(&holes);
    for (int i = 0; i < 24; i++) {
        int root = i % c.size;
        uint32_t number = ++c.number;
        fill_message(room, c.rank == root ? number : ~number, ROOM);
        mprotect(room, ROOM, c.rank == root ? PROT_READ : PROT_READ | PROT_WRITE);
        int code = i % 3 == 0   ? broadcast(&c, room, 1, holes, root)
                   : i % 3 == 1 ? broadcast(&c, room, 800, MPI_BYTE, root)
                                : broadcast(&c, room, LONG, MPI_BYTE, root);
        if (code != MPI_SUCCESS)
            wrong("an error");
        check_message(&c, room, number, i % 3 == 0 ? 12 : i % 3 == 1 ? 800 : LONG);
        mprotect(room, ROOM, PROT_READ | PROT_WRITE);
    }
    MPI_Type_free(&holes);
    munmap(room - page, ROOM + 2 * page);
    close_channel(&c);
#endif
}

/* Memory that was another buffer a moment ago, and is given back at once. */
static void mapped_anew(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    for (int i = 0; i < 24; i++) {
        unsigned char *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint32_t number = ++c.number;
        int root = i % c.size;
        fill_message(room, c.rank == root ? number : ~number, ROOM);
        if (broadcast(&c, room, ROOM, MPI_BYTE, root) != MPI_SUCCESS)
            wrong("an error");
        check_message(&c, room, number, ROOM);
        munmap(room, ROOM);
    }
    close_channel(&c);
}

const row memory_rows[] = {
    {"buffer_at_the_edge_of_memory", at_the_edge, 0, 0},
    {"read_only_at_the_root", read_only, 0, 0},
    {"memory_mapped_anew", mapped_anew, 0, 0},
    {0},
};
