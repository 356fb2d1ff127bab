/* Goal: structs come back from their image with all they point to, whatever the address; what is
 * described wrongly, or damaged, is refused. Method: small structs with each kind of pointer; each
 * byte of an image changed in several ways and read under sanitizers. */
#include "base/image.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "numbers.h"

struct thing {
    const char *name;
};

static const struct thing things[] = {{"one"}, {"two"}};

static const char *name_of_thing(const void *item)
{
    return ((const struct thing *)item)->name;
}

static const void *find_thing(const char *name)
{
    for (size_t i = 0; i < KS_COUNT_OF(things); i++) {
        if (strcmp(things[i].name, name) == 0) {
            return &things[i];
        }
    }
    return NULL;
}

struct item {
    int32_t number;
    const struct thing *thing;
    struct ks_str text;
};

struct pair {
    const struct item *item;
    const char *why;
};

struct root {
    struct ks_arena arena;
    size_t count;
    struct item *items;
    double factor;
    struct pair pairs[2];
    void *forgotten;
};

static const struct ks_image_type thing_type = {
    .name = "thing", .size = sizeof(struct thing), .name_of = name_of_thing, .find = find_thing};
static const struct ks_image_field item_fields[] = {
    KS_IMAGE_NAME_OF(struct item, thing, thing_type),
    KS_IMAGE_STR_IN(struct item, text),
};
static const struct ks_image_type item_type = KS_IMAGE_TYPE(item, item_fields);
static const struct ks_image_field pair_fields[] = {
    KS_IMAGE_REF_TO(struct pair, item, item_type),
    KS_IMAGE_TEXT_IN(struct pair, why),
};
static const struct ks_image_type pair_type = KS_IMAGE_TYPE(pair, pair_fields);
static const struct ks_image_field root_fields[] = {
    KS_IMAGE_NOT(struct root, arena),
    KS_IMAGE_ARRAY_OF(struct root, items, count, item_type),
    KS_IMAGE_STRUCTS(struct root, pairs, 2, pair_type),
};
static const struct ks_image_type root_type = KS_IMAGE_TYPE(root, root_fields);

static void make_root(struct root *root)
{
    *root = (struct root){.count = 3, .factor = 0.5};
    ks_arena_init(&root->arena);
    root->items = ks_new(&root->arena, struct item, root->count);
    assert_non_null(root->items);
    root->items[0] = (struct item){7, &things[1], KS_STR("seven")};
    root->items[1] = (struct item){8, NULL, {NULL, 0}};
    root->items[2] = (struct item){9, &things[0], KS_STR("")};
    root->pairs[1] = (struct pair){&root->items[2], "the last"};
}

static void pack(const struct root *root, struct ks_text *out)
{
    ks_text_init(out);
    assert_int_equal(ks_image_pack(root, &root_type, &root->arena, out, NULL), KS_OK);
}

/* Aligned, and of exactly the size that it has. */
static char *copy_of(const struct ks_text *text)
{
    char *copy = NULL;
    assert_int_equal(posix_memalign((void **)&copy, 16, text->len), 0);
    memcpy(copy, text->ptr, text->len);
    return copy;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct root root;
    struct root back;
    struct ks_text image;
    make_root(&root);
    pack(&root, &image);
    ks_arena_release(&root.arena);
    char *bytes = copy_of(&image);
    assert_int_equal(ks_image_unpack(bytes, image.len, &root_type, &back, NULL), KS_OK);
    assert_null(back.arena.head);
    assert_true(back.factor == 0.5 && back.count == 3);
    assert_int_equal(back.items[0].number, 7);
    assert_ptr_equal(back.items[0].thing, &things[1]);
    assert_true(ks_str_equal(back.items[0].text, KS_STR("seven")));
    assert_null(back.items[1].thing);
    assert_null(back.items[1].text.ptr);
    assert_int_equal(back.items[2].text.len, 0);
    assert_null(back.pairs[0].item);
    assert_null(back.pairs[0].why);
    assert_ptr_equal(back.pairs[1].item, &back.items[2]);
    assert_string_equal(back.pairs[1].why, "the last");
    free(bytes);
    ks_text_release(&image);
}

static void check_refused(const struct root *root, const char *what)
{
    struct ks_text out;
    struct ks_err err = {0};
    ks_text_init(&out);
    assert_int_equal(ks_image_pack(root, &root_type, &root->arena, &out, &err), KS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, what));
    ks_text_release(&out);
}

/* Pointers that no field describes: into the arena, into the program, to no item of the array. */
static void test_wrongly_described(void **state)
{
    (void)state;
    struct root root;
    make_root(&root);
    char place[64];
    snprintf(place, sizeof(place), "type=\"root\", the pointer at byte %zu",
             offsetof(struct root, forgotten));
    root.forgotten = (void *)((uintptr_t)root.items + 8); // no bool with padding ends so
    check_refused(&root, place);
    root.forgotten = (void *)((uintptr_t)&things[0] + 8);
    check_refused(&root, place);
    root.forgotten = NULL;
    struct item elsewhere = {0};
    root.pairs[0].item = &elsewhere;
    check_refused(&root, "type=\"pair\"");
    root.pairs[0].item = (const struct item *)(const void *)((const char *)root.items + 8);
    check_refused(&root, "type=\"pair\"");
    ks_arena_release(&root.arena);
}

static void read_all(const struct root *root)
{
    for (size_t i = 0; i < root->count; i++) {
        const struct item *item = &root->items[i];
        assert_true(!item->thing || find_thing(item->thing->name) == item->thing);
        assert_true(!item->text.ptr || memchr(item->text.ptr, 1, item->text.len) == NULL ||
                    item->text.len > 0);
    }
    for (size_t i = 0; i < 2; i++) {
        const struct pair *pair = &root->pairs[i];
        assert_true(!pair->why || strlen(pair->why) < 1000);
        assert_true(!pair->item || pair->item->number != 123456);
    }
}

/* Behind a checksum nothing of this is ever seen; still it must not lead out of the image. */
static void test_damaged(void **state)
{
    (void)state;
    struct root root;
    struct ks_text image;
    struct numbers numbers = {3};
    make_root(&root);
    pack(&root, &image);
    size_t refused = 0;
    for (int round = 0; round < 20000; round++) {
        char *bytes = copy_of(&image);
        size_t size = round % 4 ? image.len : (size_t)numbers_below(&numbers, image.len);
        struct root back;
        for (uint64_t i = 0; i <= numbers_below(&numbers, 3); i++) {
            bytes[numbers_below(&numbers, image.len)] = (char)numbers_next(&numbers);
        }
        if (ks_image_unpack(bytes, size, &root_type, &back, NULL) == KS_OK) {
            if (back.items) {
                read_all(&back);
            }
        } else {
            refused++;
        }
        free(bytes);
    }
    assert_true(refused > 1000);
    ks_text_release(&image);
    ks_arena_release(&root.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_wrongly_described),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
