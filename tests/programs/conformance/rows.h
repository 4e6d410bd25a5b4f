/* A row is one thing that the MPI standard allows around MPI_Bcast. Every rank runs it and leaves a
 * checksum of all bytes that broadcasts brought, and a few words. Rank 0 prints one line a row from
 * what all ranks left, which must be the same whatever carries the broadcasts. */
#ifndef ROWS_H
#define ROWS_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* `thread_level`: the least that MPI_Init_thread must have given. `large`: the row runs only by name or
 * with `--large`. */
typedef struct {
    const char *name;
    void (*run)(void);
    int thread_level;
    int large;
} row;

extern const row communicator_rows[], topology_rows[], datatype_rows[], layout_rows[], binding_rows[],
    nonblocking_rows[], error_rows[], handler_rows[], callback_rows[], thread_rows[], process_rows[],
    memory_rows[], lifetime_rows[], large_rows[];

/* A communicator and what came over it. Ranks of one communicator open it, carry over it and close it
 * in the same order; a thread has channels of its own. */
typedef struct {
    MPI_Comm comm;
    int rank, size;
    uint32_t number;
    uint64_t checksum;
} channel;

/* `blocks` runs of `length` bytes at `at` from the origin of each element: what a datatype means,
 * in the order of its signature, said without MPI. */
enum { MAX_BLOCKS = 128 };
typedef struct {
    MPI_Datatype type;
    MPI_Aint extent;
    int blocks;
    MPI_Aint at[MAX_BLOCKS];
    int length[MAX_BLOCKS];
} layout;

extern int world_rank, world_size;

channel open_channel(MPI_Comm comm);
/* Adds what came to the row's checksum; the communicator stays. */
void close_channel(channel *c);

/* MPI_Bcast; every second one through arborcast_bcast where a library has it, which tells the way. */
int broadcast(channel *c, void *buffer, int count, MPI_Datatype type, int root);
/* Broadcasts `count` elements in memory of their own and checks every byte in and around them. */
void carry(channel *c, int root, const layout *l, int count);
void carry_bytes(channel *c, int root, int bytes);
/* From every root, short and long, twice each. */
void carry_from_every_root(channel *c);
/* The same over a communicator that is opened and closed, and freed. */
void carry_and_free(MPI_Comm *comm);
/* Fills or checks a message; `number` makes it another message. */
unsigned char expected(uint32_t number, uint32_t index);
void fill_message(void *buffer, uint32_t number, size_t bytes);
void check_message(channel *c, const void *buffer, uint32_t number, size_t bytes);
layout bytes_layout(void);

/* Words on the row's line; the same on all ranks is printed once. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A broken promise: on the row's line and on standard error. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Leaves a row that this MPI does not support; all ranks do. */
void skip(const char *why);
/* Whether the MPI that runs says this of itself; the one that compiled may be another. */
int is_library(const char *name);
/* The class of an error code, which unlike the code is the same in every run. */
int class_of(int code);

#endif
