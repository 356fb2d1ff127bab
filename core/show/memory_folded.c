/* Blocks as folded stacks, line by line as torch.cuda._memory_viz writes them for flamegraph.pl. */
#include "base/err.h"
#include "show/memory_picture.h"

enum { FLUSH_BYTES = 256 * 1024 };

struct folding {
    const struct ks_snapshot *snapshot;
    bool with_segments;
    struct ks_text line_begin; /* of a segment's blocks */
    struct ks_text stack;      /* outermost frame first */
    struct ks_text out;
    ks_write_cb write;
    void *user;
};

/* A name cannot end the line. */
static void append_safe(struct ks_text *text, struct ks_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        ks_text_append(text, (unsigned char)c < 0x20 ? "?" : &c, 1);
    }
}

static void append_frame(struct ks_text *text, const struct ks_stack_pool *pool, uint32_t frame)
{
    struct ks_str file = ks_stack_pool_file(pool, frame);
    const char *slash = file.len > 0 ? memrchr(file.ptr, '/', file.len) : NULL;
    size_t skip = slash ? (size_t)(slash - file.ptr) + 1 : 0;
    append_safe(text, (struct ks_str){file.ptr + skip, file.len - skip});
    ks_text_printf(text, ":%lld:", (long long)pool->frames[frame].line);
    append_safe(text, ks_stack_pool_name(pool, frame));
}

/* Frames come innermost first: each goes before what is there, so the text is made from its end. */
static void fold_stack(struct folding *f, uint32_t stack)
{
    const struct ks_stack_pool *pool = f->snapshot->pool;
    struct ks_text frames;
    ks_text_init(&frames);
    ks_text_reset(&f->stack);
    size_t depth = 0;
    for (uint32_t node = stack; node != 0; node = pool->nodes[node].parent) {
        if (ks_stack_pool_is_shown(pool, pool->nodes[node].frame)) {
            ks_text_append(&frames, (const char *)&pool->nodes[node].frame, sizeof(uint32_t));
            depth++;
        }
    }
    for (size_t i = depth; i > 0 && !frames.failed; i--) {
        uint32_t frame = 0;
        memcpy(&frame, frames.ptr + (i - 1) * sizeof(frame), sizeof(frame));
        append_frame(&f->stack, pool, frame);
        ks_text_append(&f->stack, ";", i > 1);
    }
    if (stack == 0) {
        ks_text_append_str(&f->stack, KS_STR("<non-python>"));
    }
    f->out.failed = f->out.failed || frames.failed || f->stack.failed;
    ks_text_release(&frames);
}

static void put_line(struct folding *f, const char *state, struct ks_str stack, int64_t bytes)
{
    ks_text_append(&f->out, f->line_begin.ptr, f->line_begin.len);
    ks_text_printf(&f->out, ";%s;", state);
    ks_text_append_str(&f->out, stack);
    ks_text_printf(&f->out, " %lld\n", (long long)bytes);
}

static bool flush(struct folding *f, size_t least)
{
    if (f->out.failed || f->out.len < least) {
        return true;
    }
    bool is_taken = f->out.len == 0 || f->write(f->user, f->out.ptr, f->out.len);
    ks_text_reset(&f->out);
    return is_taken;
}

static enum ks_status fold_segment(struct folding *f, const struct ks_snap_segment *segment,
                                   struct ks_err *err)
{
    ks_text_reset(&f->line_begin);
    ks_text_printf(&f->line_begin, "stream_%lld", (long long)segment->stream);
    if (f->with_segments) {
        ks_text_printf(&f->line_begin, ";seg_%llu", (unsigned long long)segment->address);
    }
    f->out.failed = f->out.failed || f->line_begin.failed;
    for (size_t i = 0; i < segment->block_count && !f->out.failed; i++) {
        const struct ks_snap_block *block = &f->snapshot->blocks[segment->first_block + i];
        const char *state = ks_memory_state_name(block->state);
        fold_stack(f, block->stack);
        put_line(f, state, (struct ks_str){f->stack.ptr, f->stack.len}, block->requested);
        if (block->size != block->requested) {
            put_line(f, state, KS_STR("<gaps>"), block->size - block->requested);
        }
        if (!flush(f, FLUSH_BYTES)) {
            return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                           "Cannot write stacks: the receiver stopped");
        }
    }
    return KS_OK;
}

static enum ks_status fold_all(struct folding *f, struct ks_err *err)
{
    for (size_t i = 0; i < f->snapshot->segment_count; i++) {
        KS_TRY(fold_segment(f, &f->snapshot->segments[i], err));
    }
    if (f->out.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write stacks: no memory");
    }
    return flush(f, 0)
               ? KS_OK
               : ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write stacks: the receiver stopped");
}

enum ks_status ks_memory_write_folded(const struct ks_memory_picture *picture,
                                      const struct ks_memory_style *style, ks_write_cb write,
                                      void *user, struct ks_err *err)
{
    struct folding f = {
        .snapshot = picture->sides[picture->side_count - 1].snapshot,
        .with_segments = style->format == KS_MEMORY_FOLDED_SEGMENTS,
        .write = write,
        .user = user,
    };
    ks_text_init(&f.line_begin);
    ks_text_init(&f.stack);
    ks_text_init(&f.out);
    enum ks_status status = fold_all(&f, err);
    ks_text_release(&f.line_begin);
    ks_text_release(&f.stack);
    ks_text_release(&f.out);
    return status;
}
