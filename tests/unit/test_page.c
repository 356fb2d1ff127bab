/* Goal: what a page keeps of spans and names is all of them, in bounds. Method: depths and blocks
 * by hand; blocks of many spans against what their resolution gives from the start; bounds of the
 * list of names; strings and text for a page byte by byte. */
#include "page/data_block.h"
#include "page/page_names.h"
#include "page/page_rows.h"
#include "page/span_blocks.h"
#include "page/span_depths.h"

#include "base/text.h"
#include "cmocka_all.h"
#include "show/json_writer.h"

/* ------------------------------------------------------------------ depths */

static struct ks_span_depths depths;

static void check_depth(int64_t start_ns, int64_t end_ns, uint32_t expected)
{
    uint32_t depth = 0;
    assert_int_equal(ks_span_depths_place(&depths, start_ns, end_ns, &depth, NULL), KS_OK);
    assert_int_equal(depth, expected);
}

static void test_nested(void **state)
{
    (void)state;
    check_depth(0, 100, 0);
    check_depth(10, 50, 1);
    check_depth(10, 20, 2);
    check_depth(20, 30, 2); // begins where its sister ends
    check_depth(60, 60, 1); // no length
    check_depth(60, 60, 1);
    check_depth(100, 110, 0);
    ks_span_depths_release(&depths);
}

static void test_overlapping(void **state)
{
    (void)state;
    check_depth(0, 10, 0);
    check_depth(5, 15, 1);
    check_depth(12, 22, 0); // the first level is free again
    check_depth(13, 14, 2);
    check_depth(16, 18, 1);
    check_depth(30, 40, 0);
    check_depth(31, 39, 1);
    ks_span_depths_release(&depths);
}

static void test_deep(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        check_depth(i, 20000 - i, i < KS_SPAN_DEPTH_MAX ? (uint32_t)i : KS_SPAN_DEPTH_MAX);
    }
    check_depth(30000, 30001, 0);
    ks_span_depths_release(&depths);
}

/* ------------------------------------------------------------------ blocks */

static struct ks_span_blocks new_blocks(size_t count_max, int64_t length_ns, size_t parts)
{
    struct ks_span_blocks blocks = {.count_max = count_max, .track_count = 2};
    assert_int_equal(ks_span_blocks_init(&blocks, length_ns, parts, NULL), KS_OK);
    return blocks;
}

static void add(struct ks_span_blocks *blocks, struct ks_page_span span)
{
    assert_int_equal(ks_span_blocks_add(blocks, &span, NULL), KS_OK);
}

static void check_block(const struct ks_span_blocks *blocks, size_t at, int64_t start_ns,
                        int64_t end_ns, uint32_t name, uint32_t count)
{
    const struct ks_span_block *block = &blocks->list[at];
    assert_int_equal(block->start_ns, start_ns);
    assert_int_equal(block->end_ns, end_ns);
    assert_int_equal(block->name, name);
    assert_int_equal(block->count, count);
}

static void test_short_spans_are_one(void **state)
{
    (void)state;
    size_t first[3];
    struct ks_span_blocks blocks = new_blocks(100, 1024, 16);
    assert_int_equal(blocks.resolution_ns, 128); // 1024 / 64 would be 16 parts, and one more
    add(&blocks, (struct ks_page_span){0, 10, 7, 1, 0});
    add(&blocks, (struct ks_page_span){10, 20, 8, 1, 0}); // joins, and is longer
    add(&blocks, (struct ks_page_span){12, 5, 9, 1, 1});  // another depth
    add(&blocks, (struct ks_page_span){127, 10, 7, 1, 0});
    add(&blocks, (struct ks_page_span){140, 1, 7, 1, 0});   // another part
    add(&blocks, (struct ks_page_span){150, 128, 7, 1, 0}); // long
    add(&blocks, (struct ks_page_span){0, 1, 5, 0, 0});
    assert_int_equal(ks_span_blocks_seal(&blocks, first, NULL), KS_OK);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[1], 1);
    assert_int_equal(first[2], 5);
    check_block(&blocks, 0, 0, 1, 5, 1);
    check_block(&blocks, 1, 0, 137, 8, 3);
    check_block(&blocks, 2, 12, 17, 9, 1);
    check_block(&blocks, 3, 140, 141, 7, 1);
    check_block(&blocks, 4, 150, 278, 7, 1);
    ks_span_blocks_release(&blocks);
}

/* Spans of many lengths, always the same ones. */
static struct ks_page_span nth_span(uint32_t i)
{
    uint32_t mixed = i * 2654435761u >> 16;
    return (struct ks_page_span){(int64_t)i * 50, mixed % 50, mixed % 97, mixed & 1,
                                 mixed >> 1 & 1};
}

static void test_coarser_is_as_coarse_from_the_start(void **state)
{
    (void)state;
    enum { SPANS = 20000, MOST = 500 };
    size_t first[3];
    struct ks_span_blocks bounded = new_blocks(MOST, SPANS * 50, SPANS * 50);
    for (uint32_t i = 0; i < SPANS; i++) {
        add(&bounded, nth_span(i));
        assert_true(bounded.count <= MOST);
    }
    struct ks_span_blocks plain = new_blocks(SPANS, SPANS * 50, SPANS * 50);
    plain.resolution_ns = bounded.resolution_ns;
    uint64_t count = 0;
    for (uint32_t i = 0; i < SPANS; i++) {
        add(&plain, nth_span(i));
    }
    assert_int_equal(ks_span_blocks_seal(&bounded, first, NULL), KS_OK);
    assert_int_equal(ks_span_blocks_seal(&plain, first, NULL), KS_OK);
    assert_int_equal(bounded.count, plain.count);
    for (size_t i = 0; i < plain.count; i++) {
        const struct ks_span_block *block = &plain.list[i];
        check_block(&bounded, i, block->start_ns, block->end_ns, block->name, block->count);
        count += block->count;
    }
    assert_int_equal(count, SPANS);
    ks_span_blocks_release(&bounded);
    ks_span_blocks_release(&plain);
}

/* ------------------------------------------------------------------ names */

static void test_names(void **state)
{
    (void)state;
    struct ks_page_names names;
    uint32_t place = 0;
    char text[700];
    memset(text, 'x', sizeof(text));
    memcpy(text + 599, "\xC3\xA4", 2); // a letter of two bytes over the bound
    ks_page_names_init(&names, false);
    assert_int_equal(ks_page_names_find(&names, 5, KS_STR("a"), &place, NULL), KS_OK);
    assert_int_equal(place, 0);
    assert_int_equal(
        ks_page_names_find(&names, 6, (struct ks_str){text, sizeof(text)}, &place, NULL), KS_OK);
    assert_int_equal(place, 1);
    assert_int_equal(names.list[1].len, 599 + 3);
    assert_memory_equal(names.list[1].ptr + 598, "x\xE2\x80\xA6", 4);
    assert_int_equal(ks_page_names_find(&names, 5, KS_STR("a"), &place, NULL), KS_OK);
    assert_int_equal(place, 0);
    for (uint64_t key = 10; key < 100 * 1000; key++) {
        struct ks_str name = {text, 500};
        assert_int_equal(ks_page_names_find(&names, key, name, &place, NULL), KS_OK);
    }
    assert_int_equal(place, names.count - 1); // of all that found no room
    assert_true(names.left_out > 50 * 1000 && names.cost < 4 * 1024 * 1024);
    assert_int_equal(names.left_out + names.count - 1 - 2, 100 * 1000 - 10);
    ks_page_names_release(&names);
}

/* ------------------------------------------------------------------ strings */

static bool take(void *user, const char *bytes, size_t size)
{
    ks_text_append(user, bytes, size);
    return true;
}

static void check_string(struct ks_str string, size_t len_max, const char *expected)
{
    struct ks_text text;
    struct ks_json json;
    ks_text_init(&text);
    ks_json_init_for_markup(&json, len_max, take, &text);
    ks_json_str(&json, NULL, string);
    assert_int_equal(ks_json_finish(&json, NULL), KS_OK);
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.ptr, expected, text.len);
    ks_text_release(&text);
}

static void test_strings(void **state)
{
    (void)state;
    check_string(KS_STR("a</script>&b"), 0, "\"a\\u003c/script\\u003e\\u0026b\"\n");
    check_string(KS_STR("\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA"), 0,
                 "\"\\u2028\\u2029\xE2\x80\xAA\"\n");
    check_string(KS_STR("\xE2\x80"), 0, "\"\xEF\xBF\xBD\xEF\xBF\xBD\"\n");
    check_string(KS_STR("abcd"), 4, "\"abcd\"\n");
    check_string(KS_STR("abcde"), 4, "\"abcd\xE2\x80\xA6\"\n");
    check_string(KS_STR("abc\xC3\xA4"), 4, "\"abc\xE2\x80\xA6\"\n");
    check_string(KS_STR("<<\xE2\x80\xA8"), 3, "\"\\u003c\\u003c\xE2\x80\xA6\"\n");
}

static void check_text(struct ks_str plain, const char *expected)
{
    struct ks_text text;
    struct ks_sink sink;
    ks_text_init(&text);
    ks_sink_init(&sink, take, &text);
    ks_data_block_text(&sink, plain);
    assert_int_equal(ks_sink_finish(&sink, NULL), KS_OK);
    assert_int_equal(text.len, strlen(expected));
    assert_memory_equal(text.ptr, expected, text.len);
    ks_text_release(&text);
}

static void test_text(void **state)
{
    (void)state;
    check_text(KS_STR("a<b>&amp;\"c\""), "a&lt;b&gt;&amp;amp;&quot;c&quot;");
    check_text(KS_STR("\x01\t\x1f\x7f!"), "    !");
    check_text(KS_STR("\xC3\xA4\xE2\x82\xAC"), "\xC3\xA4\xE2\x82\xAC");
    check_text(KS_STR("\xC3<\xFF"), "\xEF\xBF\xBD&lt;\xEF\xBF\xBD");
}

static void test_ints(void **state)
{
    (void)state;
    const int64_t values[] = {0, -1, 12345, INT64_MAX, INT64_MIN};
    struct ks_text text;
    struct ks_json json;
    ks_text_init(&text);
    ks_json_init(&json, take, &text);
    ks_json_array_begin(&json, NULL);
    ks_json_ints(&json, NULL, values, 5);
    ks_json_ints(&json, NULL, values, 0);
    ks_json_array_end(&json);
    assert_int_equal(ks_json_finish(&json, NULL), KS_OK);
    static const char expected[] =
        "[\n  [0,-1,12345,9223372036854775807,-9223372036854775808],\n  []\n]\n";
    assert_int_equal(text.len, sizeof(expected) - 1);
    assert_memory_equal(text.ptr, expected, text.len);
    ks_text_release(&text);
}

/* ------------------------------------------------------------------ where rows lie */

enum { LANES = 3, LANE_ROWS = 3 * KS_PAGE_STRETCH_ROWS + 17, ROWS = LANES * LANE_ROWS };

struct place {
    int64_t start_ns;
    int64_t end_ns;
};

/* Rows by start; one in fifty is long, one in seven is not shown. */
static void note_rows(struct ks_page_table_rows *table, struct place *places)
{
    uint32_t seed = 7;
    for (size_t lane = 0; lane < LANES; lane++) {
        int64_t start_ns = 0;
        for (size_t i = 0; i < LANE_ROWS; i++) {
            seed = seed * 1664525 + 1013904223;
            size_t row = lane * LANE_ROWS + i;
            start_ns += (seed >> 8) % 20;
            int64_t dur_ns = (seed >> 16) % 50 == 0 ? (seed >> 4) % 90000 : (seed >> 12) % 30;
            places[row] = (struct place){start_ns, start_ns + dur_ns};
            ks_page_rows_note(table, lane, row, start_ns, start_ns + dur_ns,
                              seed % 7 == 0 ? KS_PAGE_ROW_HIDDEN : (uint8_t)(seed % 5));
        }
    }
}

/* Every row that is shown and overlaps the range is among those to be looked at, in order and once;
 * when the range is short, most others are not. */
static void check_range(const struct ks_page_table_rows *table, const struct place *places,
                        size_t lane, int64_t start_ns, int64_t end_ns)
{
    static bool is_seen[ROWS];
    uint64_t before = 0;
    struct ks_page_walk walk = {
        .table = table, .lane = lane, .start_ns = start_ns, .end_ns = end_ns};
    memset(is_seen, 0, sizeof(is_seen));
    while (ks_page_rows_next(&walk)) {
        assert_true(walk.row_begin >= before && walk.row_end > walk.row_begin);
        assert_true(walk.row_begin >= table->lanes[lane].row_begin);
        assert_true(walk.row_end <= table->lanes[lane].row_end);
        memset(is_seen + walk.row_begin, 1, (size_t)(walk.row_end - walk.row_begin));
        before = walk.row_end;
    }
    for (size_t row = 0; row < ROWS; row++) {
        bool is_of_lane = row / LANE_ROWS == lane;
        bool is_in = is_of_lane && table->depths[row] != KS_PAGE_ROW_HIDDEN &&
                     places[row].start_ns < end_ns && places[row].end_ns >= start_ns;
        assert_true(is_seen[row] || !is_in);
        assert_true(is_of_lane || !is_seen[row]);
    }
}

static void test_rows_of_a_range(void **state)
{
    (void)state;
    static struct place places[ROWS];
    static uint8_t of_rows[ROWS];
    static struct ks_page_stretch stretches[LANES * 4];
    static size_t first[LANES + 1];
    static struct ks_lane lanes[LANES];
    struct ks_page_table_rows table = {lanes, LANES, of_rows, stretches, first};
    for (size_t lane = 0; lane < LANES; lane++) {
        lanes[lane] =
            (struct ks_lane){(uint32_t)lane + 1, lane * LANE_ROWS, (lane + 1) * LANE_ROWS};
        first[lane + 1] = first[lane] + 4;
    }
    note_rows(&table, places);
    uint32_t seed = 99;
    for (int i = 0; i < 300; i++) {
        seed = seed * 1664525 + 1013904223;
        int64_t start_ns = (int64_t)((seed >> 4) % 140000) - 5000;
        int64_t width_ns = (seed >> 20) % 3 == 0 ? (seed >> 6) % 60000 : (seed >> 6) % 40;
        check_range(&table, places, (size_t)i % LANES, start_ns, start_ns + width_ns + 1);
    }
    struct ks_page_walk early = {.table = &table, .start_ns = -100, .end_ns = 0};
    assert_false(ks_page_rows_next(&early));
    struct ks_page_walk late = {.table = &table, .start_ns = INT64_MAX - 1, .end_ns = INT64_MAX};
    assert_false(ks_page_rows_next(&late));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_a_range),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_overlapping),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_short_spans_are_one),
        cmocka_unit_test(test_coarser_is_as_coarse_from_the_start),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_ints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
