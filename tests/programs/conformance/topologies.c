/* Communicators with a topology, whose ranks the MPI may have put in another order. */
#include "rows.h"
#include <stdlib.h>

static void cart(void)
{
    MPI_Comm grid, line;
    int dims[2] = {0, 0}, periods[2] = {0, 1};
    MPI_Dims_create(world_size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Cart_sub(grid, (int[]){0, 1}, &line);
    carry_and_free(&line);
    MPI_Cart_sub(grid, (int[]){1, 0}, &line);
    carry_and_free(&line);
    carry_and_free(&grid);
}

/* Smaller than its parent: some ranks get none. */
static void cart_of_some(void)
{
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){world_size > 1 ? world_size - 1 : 1}, (int[]){0}, 0, &grid);
    carry_and_free(&grid);
}

static void graph(void)
{
    MPI_Comm ring;
    int *index = malloc(world_size * sizeof *index), *edges = malloc(2 * world_size * sizeof *edges);
    for (int r = 0; r < world_size; r++) {
        index[r] = 2 * r + 2;
        edges[2 * r] = (r + world_size - 1) % world_size;
        edges[2 * r + 1] = (r + 1) % world_size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, world_size, index, edges, 1, &ring);
    free(index);
    free(edges);
    carry_and_free(&ring);
}

static void dist_graph(void)
{
    MPI_Comm ring, adjacent;
    int before = (world_rank + world_size - 1) % world_size, after = (world_rank + 1) % world_size;
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &world_rank, (int[]){1}, &after, (int[]){1},
                          MPI_INFO_NULL, 0, &ring);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, (int[]){1}, 1, &after, (int[]){1},
                                   MPI_INFO_NULL, 0, &adjacent);
    carry_and_free(&ring);
    carry_and_free(&adjacent);
}

const row topology_rows[] = {
    {"cartesian", cart, 0, 0},
    {"cartesian_of_some", cart_of_some, 0, 0},
    {"graph", graph, 0, 0},
    {"distributed_graph", dist_graph, 0, 0},
    {0},
};
