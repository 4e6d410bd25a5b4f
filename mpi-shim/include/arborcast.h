/* Broadcasts along the trees that Arborcast has found, for programs that ask for them by name.
 * Link with what `pkg-config --libs arborcast` says, in front of the MPI library. A program that only
 * calls MPI_Bcast needs none of this: start it with `arborcast run`. */
#ifndef ARBORCAST_H
#define ARBORCAST_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a broadcast went. */
typedef struct arborcast_timing {
    /* At the root of a broadcast along trees: seconds from its start until the root had the ACKs of
     * all leaves. Negative on every other rank and where the broadcast was native. */
    double seconds;
    /* 1 where the broadcast went along trees, 0 where it was native. */
    int along_trees;
} arborcast_timing;

/* As MPI_Bcast, with the same arguments, result and errors. With a timing that is not NULL on the root,
 * the root waits for the ACKs of all leaves. */
int arborcast_bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
                    arborcast_timing *timing);

/* The plan that a broadcast of `bytes` from this rank would use, in words: "native", or trees with
 * their shares. Writes at most `len` bytes to `text`, the closing zero included, and returns the
 * length of the words, or a negative MPI error code. Collective when first asked of a
 * communicator. */
int arborcast_plan(MPI_Comm comm, uint64_t bytes, char *text, size_t len);

/* What this library speaks, as pairs of a name and a version: "arborcast 0.1.0 header 4 layout 3
 * protocol 5". Ranks whose headers differ broadcast natively; layout and protocol are what the library
 * and the daemon of its node share. Needs no MPI; the text stays. */
const char *arborcast_versions(void);

#ifdef __cplusplus
}
#endif

#endif
