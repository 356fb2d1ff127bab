/* Layout of a recording, a file that one process writes and that may end at any moment. capture/
 * writes it, core/read/ reads it, docs/formats/recording.md tells of it in words.
 *
 *   header (4096 bytes) | slot 0 | slot 1 | ...        each slot 16384 bytes
 *
 * A slot belongs to one lane: what one thread wrote of one kind. It is zero when a lane takes it,
 * and is never given to another. Events are published one by one, by the store of their second
 * word; items by the store of their first. A slot that is full is sealed: `size` and `crc` hold for
 * it from then on. So a reader takes sealed slots by their checksum, and of the one that a lane
 * had open what was published. All numbers are little-endian. */
#ifndef KS_WIRE_RECORDING_H
#define KS_WIRE_RECORDING_H

#include <stdint.h>

#define KS_WIRE_MAGIC "KSREC\r\n\x1a" /* 8 bytes, no NUL: a copy as text breaks it */

enum {
    KS_WIRE_VERSION = 1,
    KS_WIRE_HEADER_SIZE = 4096,
    KS_WIRE_SLOT_SIZE = 16384,
    KS_WIRE_SLOT_HEADER_SIZE = 64,
    KS_WIRE_PAYLOAD_SIZE = KS_WIRE_SLOT_SIZE - KS_WIRE_SLOT_HEADER_SIZE,
    KS_WIRE_SLOT_MAGIC = 0x544C534B, /* "KSLT" */
};

enum ks_wire_state {
    KS_WIRE_RUNNING = 0, /* still being written, or its process ended without a word */
    KS_WIRE_CLOSED = 1,  /* ended as it should */
    KS_WIRE_OFF = 2,     /* turned itself off; `off_reason` says why */
};

/* Says which process wrote, and when. Everything before `crc` is written once, before the file gets
 * its name. */
struct ks_wire_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size;
    uint32_t slot_size;
    uint32_t pid;
    uint32_t parent_pid;
    int32_t rank; /* these four: -1 unknown */
    int32_t local_rank;
    int32_t world_size;
    int32_t worker;           /* number of the DataLoader worker */
    uint32_t is_tsc;          /* ticks are the time stamp counter's; 0: ns of CLOCK_MONOTONIC */
    int64_t start_unix_ns;    /* CLOCK_REALTIME */
    uint64_t start_tick;      /* at that time */
    int64_t start_process_ns; /* CLOCK_BOOTTIME when the process began; tells pids apart */
    char boot_id[40];         /* text, NUL-terminated like all below */
    char host[64];
    char program[256]; /* words of the command line, a blank between two; cut at the end */
    uint32_t tick_khz; /* of the counter, as measured at the start; 0 unknown. A file cut within its
                          first second may hold one clock item, which tells no rate */
    uint32_t crc;      /* CRC-32C of all bytes before it */

    /* These change while the file is written. */
    uint32_t slot_count;  /* slots ever taken: none behind them was written */
    uint32_t state;       /* enum ks_wire_state */
    uint64_t events_lost; /* no room: the file is at its limit, or the disk is full */
    uint64_t items_lost;
    uint64_t heartbeat_unix_ns; /* once a second */
    char off_reason[128];
};

enum ks_wire_slot_kind {
    KS_WIRE_EVENTS = 1, /* struct ks_wire_event, one behind the other */
    KS_WIRE_ITEMS = 2,  /* struct ks_wire_item with their payloads, each at a multiple of 8 */
    KS_WIRE_NODES = 3,  /* struct ks_wire_node: changed in place, never sealed */
};

struct ks_wire_slot {
    uint32_t magic; /* stored last: a slot without it was never begun */
    uint16_t kind;  /* enum ks_wire_slot_kind */
    uint16_t is_sealed;
    uint32_t index;    /* of the slot in the file */
    uint32_t lane;     /* from 1 */
    uint32_t sequence; /* of the slot in its lane, from 0: a gap is a loss */
    uint32_t tid;      /* gettid() of the writing thread */
    uint32_t size;     /* bytes of payload, when sealed */
    uint32_t crc;      /* CRC-32C of the payload's `size` bytes, then of the header before `size` */
    uint64_t start_tick;
    uint64_t lost; /* events or items this lane could not write before this slot */
    uint8_t reserved[16];
};

/* ------------------------------------------------------------------ events */

enum ks_wire_event_kind {
    KS_WIRE_BEGIN = 1,      /* id: site */
    KS_WIRE_END = 2,        /* id: site of the region that ends */
    KS_WIRE_MARK = 3,       /* id: site; an instant */
    KS_WIRE_COUNTER = 4,    /* id: site; the next event is its VALUE_* */
    KS_WIRE_VALUE_INT = 5,  /* tick: int64; id: site of the key; of the region that is open */
    KS_WIRE_VALUE_REAL = 6, /* tick: the bits of a double */
    KS_WIRE_VALUE_TEXT = 7, /* tick: string id */
    KS_WIRE_TRACK = 8, /* id: what follows on this lane is of this task, 0: of the thread itself */
};

struct ks_wire_event {
    uint64_t tick;
    /* id | kind << 32 | flags << 40 | aux << 48; zero: not written (yet) */
    uint64_t word;
};

/* Flags of VALUE_*. Without one, `aux` is 0 where it belongs to the innermost region that is open,
 * else the low bits of that region's site: then to the innermost one of these. */
enum ks_wire_value_flags {
    KS_WIRE_OF_MARK = 1, /* of the mark before it, not of a region */
};

/* ------------------------------------------------------------------ items */

/* Strings, sites, code and stacks are numbered from 1; one is written before what names it. Code is
 * numbered by two sources: the function profiler takes odd ids, the stack sampler those with
 * KS_WIRE_CODE_SAMPLED. */
enum ks_wire_item_kind {
    KS_WIRE_CLOCK = 1,   /* struct ks_wire_clock; once a second, and at both ends */
    KS_WIRE_STRING = 2,  /* u32 id, u32 length, UTF-8 */
    KS_WIRE_SITE = 3,    /* struct ks_wire_site: name and category of regions, marks, counters */
    KS_WIRE_THREAD = 4,  /* u32 tid, u32 string id of its name */
    KS_WIRE_CODE = 5,    /* struct ks_wire_code: a Python or C function */
    KS_WIRE_STACK = 6,   /* struct ks_wire_stack: a frame and the stack that called it */
    KS_WIRE_SAMPLE = 7,  /* struct ks_wire_sample */
    KS_WIRE_METRIC = 8,  /* struct ks_wire_metric: a curve of the monitor has this number */
    KS_WIRE_METRICS = 9, /* struct ks_wire_metrics, then u32 metric and double of each */
    KS_WIRE_NOTE = 10,   /* u32 string id of a key, u32 string id of a text: said about the run */
    KS_WIRE_FUNCTIONS = 11, /* struct ks_wire_functions: what the function profiler was like */
    KS_WIRE_SAMPLER =
        12,            /* struct ks_wire_sampler: counts of the stack sampler, the last one holds */
    KS_WIRE_UNIT = 13, /* u32 site of a counter, u32 string id of its unit */
};

struct ks_wire_item {
    uint32_t word; /* kind << 24 | length of the payload in bytes; stored last */
    uint32_t crc;  /* CRC-32C of the payload */
};

struct ks_wire_clock {
    uint64_t tick;
    int64_t monotonic_ns;
    int64_t unix_ns;
};

struct ks_wire_site {
    uint32_t id;
    uint32_t name; /* these two: string ids */
    uint32_t category;
    uint32_t reserved;
};

/* Set in the code ids of the stack sampler. */
#define KS_WIRE_CODE_SAMPLED UINT32_C(0x80000000)

struct ks_wire_code {
    uint32_t id;
    uint32_t name; /* string ids: qualified name, file ("~" for C functions) */
    uint32_t file;
    uint32_t first_line; /* 0 for C functions */
};

struct ks_wire_stack {
    uint32_t id;
    uint32_t caller; /* stack id, 0: none */
    uint32_t code;
    uint32_t line; /* 0 unknown */
};

enum ks_wire_sample_flags {
    KS_WIRE_SAMPLE_RUNNING = 1,   /* used the CPU since the look before */
    KS_WIRE_SAMPLE_HOLDS_GIL = 2, /* where the interpreter tells */
};

struct ks_wire_sample {
    uint64_t tick;
    uint32_t tid;
    uint32_t stack;
    uint32_t weight; /* looks that it stands for: the thread was idle and had not moved */
    uint32_t flags;
};

struct ks_wire_sampler {
    uint64_t looks;
    uint64_t samples;
    uint64_t torn;   /* stacks that were not accepted, after two more tries */
    uint64_t late;   /* looks that came later than twice the interval */
    uint64_t cpu_ns; /* the sampler's own */
    uint32_t rate_hz;
    uint32_t reserved;
};

struct ks_wire_metric {
    uint32_t id;
    uint32_t name; /* string ids: "cpu.process", "gpu.power" */
    uint32_t unit; /* "percent", "bytes", "bytes/s", "W" */
    int32_t index; /* of the core or device; -1 none */
};

struct ks_wire_metrics {
    uint64_t tick;
    uint32_t count;
    uint32_t reserved;
};

struct ks_wire_functions {
    uint32_t has_c_calls;
    uint32_t mechanism;  /* 1: PyEval_SetProfile, 2: sys.monitoring */
    uint64_t cost_ticks; /* of one call's two events, calibrated at the start */
    uint64_t start_tick;
    uint64_t stop_tick; /* 0: still on */
};

/* A call path: one function as called by its parent node. Its thread changes it in place, one field
 * at a time, so that a reader of a cut file may be off by the call that was being counted. Calls of
 * too many different paths are counted below a root of the function "(other)", where a node is a
 * function whoever called it and may be open several times. */
struct ks_wire_node {
    uint32_t code;        /* stored last: 0, no node */
    uint32_t parent_slot; /* parent: slot and number in it; 0xffffffff: a root */
    uint32_t parent_index;
    uint32_t open;        /* calls that have not returned */
    uint64_t calls;       /* that began, those that are open as well */
    uint64_t total_ticks; /* of calls that returned, with what they called */
    uint64_t open_tick;   /* when the call that is open began */
    uint64_t child_ticks; /* total_ticks of its children, without waiting for them to be read */
};

_Static_assert(sizeof(struct ks_wire_header) <= KS_WIRE_HEADER_SIZE, "fits its page");
_Static_assert(sizeof(struct ks_wire_slot) == KS_WIRE_SLOT_HEADER_SIZE, "as documented");
_Static_assert(sizeof(struct ks_wire_event) == 16, "as documented");
_Static_assert(sizeof(struct ks_wire_item) == 8, "as documented");
_Static_assert(sizeof(struct ks_wire_node) == 48, "as documented");

#endif
