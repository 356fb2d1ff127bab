/* cmocka and the headers that it wants to see before its own. */
#ifndef KS_TESTS_CMOCKA_ALL_H
#define KS_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
