#include "read/read_ahead.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/err.h"

/* Enough that a thread which is called away for a moment does not make the other wait. */
enum { BLOCKS = 4 };

struct block {
    char *bytes;
    size_t size;
    size_t used;
};

/* A ring: blocks [taken, filled) hold bytes. Each counter is moved by one side only. */
struct ks_read_ahead {
    struct ks_input *input;
    size_t block_bytes;
    struct block blocks[BLOCKS];
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    unsigned filled;
    unsigned taken;
    bool is_over;    /* no more blocks come: the input has ended, or there is an error */
    bool is_stopped; /* nobody wants more */
    enum ks_status status;
    struct ks_err err;
};

/* Waits for a free block; NULL: nobody wants more. */
static struct block *wait_for_room(struct ks_read_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->filled - a->taken == BLOCKS && !a->is_stopped) {
        pthread_cond_wait(&a->changed, &a->lock);
    }
    struct block *block = a->is_stopped ? NULL : &a->blocks[a->filled % BLOCKS];
    pthread_mutex_unlock(&a->lock);
    return block;
}

/* Hands over what has been read into the free block. False: that was the last. */
static bool hand_over(struct ks_read_ahead *a, const struct block *block, enum ks_status status,
                      const struct ks_err *err)
{
    pthread_mutex_lock(&a->lock);
    if (status != KS_OK) {
        a->status = status;
        a->err = *err;
    }
    a->is_over = status != KS_OK || block->size == 0;
    a->filled += !a->is_over;
    bool goes_on = !a->is_over;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return goes_on;
}

static void *fill_blocks(void *arg)
{
    struct ks_read_ahead *a = arg;
    bool goes_on = true;
    while (goes_on) {
        struct block *block = wait_for_room(a);
        if (!block) {
            break;
        }
        struct ks_err err = {.offset = KS_NO_OFFSET};
        block->size = 0;
        block->used = 0;
        enum ks_status status =
            ks_input_read(a->input, block->bytes, a->block_bytes, &block->size, &err);
        goes_on = hand_over(a, block, status, &err);
    }
    return NULL;
}

static void release(struct ks_read_ahead *a)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        ks_free(a->blocks[i].bytes);
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    ks_free(a);
}

enum ks_status ks_read_ahead_start(struct ks_input *input, size_t block_bytes,
                                   struct ks_read_ahead **out, struct ks_err *err)
{
    *out = NULL;
    struct ks_read_ahead *a = ks_alloc(1, sizeof(*a));
    bool has_memory = a != NULL;
    if (a) {
        a->input = input;
        a->block_bytes = block_bytes;
        pthread_mutex_init(&a->lock, NULL);
        pthread_cond_init(&a->changed, NULL);
    }
    for (size_t i = 0; i < BLOCKS && has_memory; i++) {
        a->blocks[i].bytes = ks_alloc(1, block_bytes);
        has_memory = a->blocks[i].bytes != NULL;
    }
    if (has_memory && pthread_create(&a->thread, NULL, fill_blocks, a) == 0) {
        *out = a;
        return KS_OK;
    }
    if (a) {
        release(a);
    }
    return has_memory
               ? KS_OK
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read ahead: blocks=%d", BLOCKS);
}

/* Waits for bytes; NULL: there are no more. */
static struct block *wait_for_bytes(struct ks_read_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->filled == a->taken && !a->is_over) {
        pthread_cond_wait(&a->changed, &a->lock);
    }
    struct block *block = a->filled == a->taken ? NULL : &a->blocks[a->taken % BLOCKS];
    pthread_mutex_unlock(&a->lock);
    return block;
}

static void give_back(struct ks_read_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    a->taken++;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

enum ks_status ks_read_ahead_read(struct ks_read_ahead *a, char *bytes, size_t capacity,
                                  size_t *size, struct ks_err *err)
{
    *size = 0;
    struct block *block = wait_for_bytes(a);
    if (!block) { // the thread has ended, so nobody changes the error any more
        if (a->status != KS_OK && err) {
            *err = a->err;
        }
        return a->status;
    }
    size_t left = block->size - block->used;
    *size = left < capacity ? left : capacity;
    memcpy(bytes, block->bytes + block->used, *size);
    block->used += *size;
    if (block->used == block->size) {
        give_back(a);
    }
    return KS_OK;
}

void ks_read_ahead_end(struct ks_read_ahead *a)
{
    if (!a) {
        return;
    }
    pthread_mutex_lock(&a->lock);
    a->is_stopped = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    release(a);
}
