/* Goal: a tree holds a process and what it started, also when parents end, and never a process that
 * has but inherited a number. Method: children of this process that wait for a pipe to close. */
#include "launch/process_tree.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

/* A child that starts another one and says its number; both live until `ends[1]` closes. */
static pid_t start_two(int ends[2], pid_t *grandchild)
{
    int told[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        char end;
        close(ends[1]);
        pid_t own = fork();
        if (own > 0 && write(told[1], &own, sizeof(own)) != (ssize_t)sizeof(own)) {
            _exit(1);
        }
        _exit(read(ends[0], &end, 1) != 0);
    }
    close(ends[0]);
    assert_int_equal(read(told[0], grandchild, sizeof(*grandchild)), sizeof(*grandchild));
    close(told[0]);
    close(told[1]);
    return child;
}

static void test_tree(void **state)
{
    (void)state;
    int ends[2];
    pid_t grandchild = 0;
    struct ks_process_tree none = {0};
    struct ks_process_tree tree = {0};
    struct ks_process_tree later = {0};
    pid_t child = start_two(ends, &grandchild);
    assert_true(ks_process_tree_read(&tree, &none, child));
    assert_int_equal(tree.count, 2);
    assert_non_null(ks_process_tree_find(&tree, child));
    assert_int_equal(ks_process_tree_find(&tree, grandchild)->parent, child);
    assert_null(ks_process_tree_find(&tree, getpid()));

    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(ks_process_tree_read(&later, &tree, child));
    assert_int_equal(later.count, 1); /* an orphan stays a member */
    assert_int_equal(later.list[0].pid, grandchild);
    ks_process_tree_release(&later);

    for (size_t i = 0; i < tree.count; i++) {
        tree.list[i].start_ticks++; /* as if the numbers had been given to others since */
    }
    assert_true(ks_process_tree_read(&later, &tree, child));
    assert_int_equal(later.count, 0);
    ks_process_tree_release(&later);
    ks_process_tree_release(&tree);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
