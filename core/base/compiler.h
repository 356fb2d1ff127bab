/* Attributes and assertions. KS_ASSERT stays on in every build; KS_DCHECK is for hot loops. */
#ifndef KS_BASE_COMPILER_H
#define KS_BASE_COMPILER_H

#include <kscope/kscope.h>

#define KS_PRINTF(format_arg, first_arg) __attribute__((format(printf, format_arg, first_arg)))
#define KS_LIKELY(x) __builtin_expect(!!(x), 1)
#define KS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define KS_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A loop over many bytes whose comparisons tell a fuzzer nothing, but cost it most of its time. */
#if defined(__clang__) && defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
#define KS_NO_COVERAGE __attribute__((no_sanitize("coverage")))
#else
#define KS_NO_COVERAGE
#endif

/* Ends the program with place and text; only for what we guarantee, never for what input says. */
_Noreturn void ks_assert_failed(const char *file, int line, const char *text);

#define KS_ASSERT(x) (KS_LIKELY(x) ? (void)0 : ks_assert_failed(__FILE__, __LINE__, #x))
#ifdef KS_DEBUG
#define KS_DCHECK(x) KS_ASSERT(x)
#else
#define KS_DCHECK(x) ((void)0)
#endif

#endif
