/* Runs rows and prints one line a row:
 *   row NAME | CHECKSUM | WORDS
 *   skip NAME | WHY
 *   trees NAME ASKED ALONG   what the library said of every second broadcast, ranks other than the root
 * and `begin NAME` before each, so that a row that ends the job is known.
 * Usage: conformance [--level single|multiple] [--large] [--list] [--plain] [NAME...]
 * With --plain no broadcast is asked which way it went: all are the program's own calls.
 * Exit code 1 where a promise was broken. */
#define _GNU_SOURCE
#include "rows.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Above what any row takes natively, so that it only ends what hangs. */
enum { ROW_LIMIT_S = 30, LARGE_ROW_LIMIT_S = 600, WORDS = 800, GUARD = 64 };

typedef struct {
    uint64_t checksum, asked, along_trees, wrong;
    char skipped[80];
    char words[WORDS];
} report;

typedef struct {
    double seconds;
    int along_trees;
} timing;

static const row *const tables[] = {
    communicator_rows, topology_rows, datatype_rows, layout_rows, binding_rows,
    nonblocking_rows,  error_rows,    handler_rows,  callback_rows, thread_rows,
    process_rows,      memory_rows,   lifetime_rows, large_rows,
};

int world_rank, world_size;
static int (*ask)(void *, int, MPI_Datatype, int, MPI_Comm, timing *);
static MPI_Comm results;
static report mine;
static const char *running;
static int row_number;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

unsigned char expected(uint32_t number, uint32_t index)
{
    uint32_t x = (index + 1) * 0x9e3779b1u ^ (number + 1) * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return (unsigned char)((x ^ x >> 13) >> 8);
}

static uint64_t hash(uint64_t state, unsigned char byte)
{
    return (state ^ byte) * 0x100000001b3u;
}

void note(const char *format, ...)
{
    va_list arguments;
    pthread_mutex_lock(&lock);
    size_t used = strlen(mine.words);
    va_start(arguments, format);
    vsnprintf(mine.words + used, WORDS - used, format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&lock);
}

void wrong(const char *format, ...)
{
    char text[WORDS];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (mine.wrong++ == 0)
        note(" WRONG: %s", text);
    fprintf(stderr, "rank %d: %s: WRONG: %s\n", world_rank, running, text);
}

void skip(const char *why)
{
    snprintf(mine.skipped, sizeof mine.skipped, "%s", why);
}

int is_library(const char *name)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    return strstr(version, name) != NULL;
}

int class_of(int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

channel open_channel(MPI_Comm comm)
{
    /* Messages of different rows and communicators differ. */
    channel c = {comm, 0, 0, (uint32_t)row_number << 20, 0xcbf29ce484222325u};
    MPI_Comm_rank(comm, &c.rank);
    MPI_Comm_size(comm, &c.size);
    return c;
}

void close_channel(channel *c)
{
    pthread_mutex_lock(&lock);
    mine.checksum += c->checksum;
    pthread_mutex_unlock(&lock);
}

int broadcast(channel *c, void *buffer, int count, MPI_Datatype type, int root)
{
    if (!ask || c->number % 2)
        return MPI_Bcast(buffer, count, type, root, c->comm);
    /* The root would wait for the ACKs if it asked, which MPI_Bcast need not. */
    timing t = {-1.0, 0};
    int code = ask(buffer, count, type, root, c->comm, c->rank == root ? NULL : &t);
    if (c->rank != root) {
        __atomic_fetch_add(&mine.asked, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&mine.along_trees, t.along_trees, __ATOMIC_RELAXED);
    }
    return code;
}

void fill_message(void *buffer, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)buffer)[i] = expected(number, (uint32_t)i);
}

void check_message(channel *c, const void *buffer, uint32_t number, size_t bytes)
{
    const unsigned char *data = buffer;
    for (size_t i = 0; i < bytes; i++) {
        c->checksum = hash(c->checksum, data[i]);
        if (data[i] != expected(number, (uint32_t)i)) {
            wrong("byte %zu of %zu of message %u", i, bytes, number & 0xfffff);
            return;
        }
    }
}

void carry(channel *c, int root, const layout *l, int count)
{
    uint32_t number = ++c->number, index = 0;
    MPI_Aint least = 0, most = 0;
    for (int b = 0; count > 0 && b < l->blocks; b++) {
        MPI_Aint last = l->at[b] + (count - 1) * l->extent;
        MPI_Aint from = l->at[b] < last ? l->at[b] : last, to = l->at[b] > last ? l->at[b] : last;
        least = from < least ? from : least;
        most = to + l->length[b] > most ? to + l->length[b] : most;
    }
    size_t room = most - least + 2 * GUARD;
    unsigned char *memory = malloc(room), *origin = memory + GUARD - least;
    memset(memory, 0xee, room);
    for (int e = 0; c->rank == root && e < count; e++)
        for (int b = 0; b < l->blocks; b++)
            for (int i = 0; i < l->length[b]; i++)
                origin[e * l->extent + l->at[b] + i] = expected(number, index++);
    int code = broadcast(c, origin, count, l->type, root);
    if (code != MPI_SUCCESS)
        wrong("error class %d from root %d", class_of(code), root);
    index = 0;
    for (int e = 0; e < count; e++) {
        for (int b = 0; b < l->blocks; b++) {
            for (int i = 0; i < l->length[b]; i++, index++) {
                unsigned char *at = &origin[e * l->extent + l->at[b] + i];
                c->checksum = hash(c->checksum, *at);
                if (*at != expected(number, index)) {
                    wrong("byte %u of message %u from root %d", index, number & 0xfffff, root);
                    free(memory);
                    return;
                }
                *at = 0xee;
            }
        }
    }
    for (size_t i = 0; i < room; i++)
        if (memory[i] != 0xee) {
            wrong("a byte outside of message %u", number & 0xfffff);
            break;
        }
    free(memory);
}

layout bytes_layout(void)
{
    return (layout){MPI_BYTE, 1, 1, {0}, {1}};
}

void carry_bytes(channel *c, int root, int bytes)
{
    layout l = bytes_layout();
    carry(c, root, &l, bytes);
}

void carry_from_every_root(channel *c)
{
    static const int sizes[] = {0, 1, 100, 1025, 5000, 70000};
    for (int root = 0; root < c->size; root++)
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int twice = 0; twice < 2; twice++)
                carry_bytes(c, root, sizes[s]);
}

void carry_and_free(MPI_Comm *comm)
{
    if (*comm == MPI_COMM_NULL)
        return;
    channel c = open_channel(*comm);
    carry_from_every_root(&c);
    close_channel(&c);
    MPI_Comm_free(comm);
}

static void print(const char *name, const report *reports)
{
    report sum = {0};
    for (int r = 0; r < world_size; r++) {
        sum.checksum = (sum.checksum ^ reports[r].checksum) * 0x9e3779b97f4a7c15u;
        sum.asked += reports[r].asked;
        sum.along_trees += reports[r].along_trees;
    }
    if (reports[0].skipped[0]) {
        printf("skip %s | %s\n", name, reports[0].skipped);
        return;
    }
    printf("row %s | %016llx |", name, (unsigned long long)sum.checksum);
    for (int from = 0, to; from < world_size; from = to) {
        for (to = from + 1; to < world_size && !strcmp(reports[to].words, reports[from].words); to++)
            ;
        if (reports[from].words[0])
            printf(" ranks %d-%d:%s", from, to - 1, reports[from].words);
    }
    printf("\ntrees %s %llu %llu\n", name, (unsigned long long)sum.asked,
           (unsigned long long)sum.along_trees);
}

static void run(const row *r)
{
    running = r->name;
    memset(&mine, 0, sizeof mine);
    if (world_rank == 0) {
        printf("begin %s\n", r->name);
        fflush(stdout);
    }
    MPI_Barrier(results);
    alarm(r->large ? LARGE_ROW_LIMIT_S : ROW_LIMIT_S);
    r->run();
    report *all = malloc(world_size * sizeof *all);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, results);
    alarm(0);
    if (world_rank == 0) {
        print(r->name, all);
        fflush(stdout);
    }
    free(all);
}

static int is_named(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE, large = 0, list = 0, plain = 0, given, at = 1;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        large |= !strcmp(argv[at], "--large");
        list |= !strcmp(argv[at], "--list");
        plain |= !strcmp(argv[at], "--plain");
        if (!strcmp(argv[at], "--level") && at + 1 < argc && !strcmp(argv[++at], "multiple"))
            level = MPI_THREAD_MULTIPLE;
    }
    MPI_Init_thread(NULL, NULL, level, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm_dup(MPI_COMM_WORLD, &results);
    if (!plain)
        ask = (int (*)(void *, int, MPI_Datatype, int, MPI_Comm, timing *))dlsym(RTLD_DEFAULT, "arborcast_bcast");
    long broken = 0, any;
    for (unsigned t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (const row *r = tables[t]; r->name; r++) {
            row_number++;
            int is_asked_for = argc > at ? is_named(r->name, argv + at, argc - at)
                                         : r->large == large && r->thread_level <= level;
            if (list && world_rank == 0)
                printf("%s\n", r->name);
            if (list || !is_asked_for)
                continue;
            run(r);
            broken += mine.wrong;
        }
    }
    MPI_Allreduce(&broken, &any, 1, MPI_LONG, MPI_SUM, results);
    MPI_Comm_free(&results);
    if (world_rank == 0) {
        printf("all rows ended\n");
        fflush(stdout);
    }
    MPI_Finalize();
    return any != 0;
}
