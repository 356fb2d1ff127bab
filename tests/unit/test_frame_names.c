/* Goal: names of Python frames come apart, and user's code is told from libraries. Method: names
 * as recordings of several torch versions hold them. */
#include "analyze/frame_names.h"
#include "cmocka_all.h"

static void check(const char *name, enum ks_frame_kind kind, const char *file, int64_t line,
                  const char *function)
{
    struct ks_frame frame = ks_frame_parse(ks_str_from(name));
    assert_int_equal(frame.kind, kind);
    if (kind != KS_FRAME_NONE) {
        assert_true(ks_str_equal(frame.file, ks_str_from(file)));
        assert_int_equal(frame.line, line);
        assert_true(ks_str_equal(frame.function, ks_str_from(function)));
    }
}

static void test_parse(void **state)
{
    (void)state;
    check("train.py(7): step", KS_FRAME_USER, "train.py", 7, "step");
    check("/srv/my (old)/a.py(120): <module>", KS_FRAME_USER, "/srv/my (old)/a.py", 120,
          "<module>");
    check("model/net.py(3): f(x): y", KS_FRAME_USER, "model/net.py", 3, "f(x): y");
    check("torch/nn/modules/module.py(1783): _call_impl", KS_FRAME_TORCH,
          "torch/nn/modules/module.py", 1783, "_call_impl");
    check("/usr/lib/python3/dist-packages/torch/optim/adam.py(5): step", KS_FRAME_TORCH,
          "/usr/lib/python3/dist-packages/torch/optim/adam.py", 5, "step");
    check("/opt/x/lib/python3.10/site-packages/foo/bar.py(1): g", KS_FRAME_LIBRARY,
          "/opt/x/lib/python3.10/site-packages/foo/bar.py", 1, "g");
    check("/x/site-packages/pkg/vendor-packages/torch/a.py(1): g", KS_FRAME_TORCH,
          "/x/site-packages/pkg/vendor-packages/torch/a.py", 1, "g");
    check("/usr/lib/python3.11/typing.py(2): cast", KS_FRAME_LIBRARY,
          "/usr/lib/python3.11/typing.py", 2, "cast");
    check("transformers/trainer.py(99): train", KS_FRAME_LIBRARY, "transformers/trainer.py", 99,
          "train");
    check("threading.py(10): run", KS_FRAME_LIBRARY, "threading.py", 10, "run");
    check("<frozen os>(680): __getitem__", KS_FRAME_LIBRARY, "<frozen os>", 680, "__getitem__");
    check("<string>(1): <module>", KS_FRAME_LIBRARY, "<string>", 1, "<module>");
    check("<built-in method item of Tensor object at 0x7f27>", KS_FRAME_NONE, "", 0, "");
    check("nn.Module: Linear_0", KS_FRAME_NONE, "", 0, "");
    check("x.py(): f", KS_FRAME_NONE, "", 0, "");
    check("x.py(12a): f", KS_FRAME_NONE, "", 0, "");
    check("): ", KS_FRAME_NONE, "", 0, "");
    check("", KS_FRAME_NONE, "", 0, "");
}

static void check_call(const char *text, bool ok, const char *file, int64_t line)
{
    struct ks_str got = {0};
    int64_t number = 0;
    assert_true(ks_frame_parse_call(ks_str_from(text), &got, &number) == ok);
    if (ok) {
        assert_true(ks_str_equal(got, ks_str_from(file)));
        assert_int_equal(number, line);
    }
}

static void test_parse_call(void **state)
{
    (void)state;
    check_call("train.py:17", true, "train.py", 17);
    check_call("C:/x.py:3", true, "C:/x.py", 3);
    check_call("train.py", false, "", 0);
    check_call("train.py:", false, "", 0);
    check_call(":4", false, "", 0);
    check_call("", false, "", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
