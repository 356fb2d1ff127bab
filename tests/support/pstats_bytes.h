/* A profile as Python's marshal writes it, with each type that is read. */
#ifndef KS_TESTS_PSTATS_BYTES_H
#define KS_TESTS_PSTATS_BYTES_H

/* {("a", 1, "f"): (1, 2, 0.5, 1.0, {("b", 2, "g"): (2, 1, 0.25, 0.5), (that of f): 3}),
 *  (that of g): (2^40, 2^40 and a long digit, 0.0, 2.0, {})}, with references to key and name. */
#define REAL_HALF "g\0\0\0\0\0\0\xe0\x3f"
#define REAL_ONE "g\0\0\0\0\0\0\xf0\x3f"
#define PSTATS_BYTES                                                                               \
    "\xfb\xa9\x03\xda\x01"                                                                         \
    "ai\x01\0\0\0z\x01"                                                                            \
    "f)\x05i\x01\0\0\0i\x02\0\0\0" REAL_HALF REAL_ONE "{\xa9\x03u\x01\0\0\0"                       \
    "bi\x02\0\0\0a\x01\0\0\0"                                                                      \
    "g(\x04\0\0\0i\x02\0\0\0i\x01\0\0\0" REAL_HALF REAL_HALF "r\x01\0\0\0i\x03\0\0\0"              \
    "0r\x03\0\0\0)\x05I\0\0\0\0\0\x01\0\0"                                                         \
    "l\x03\0\0\0\0\0\0\0\0\x04i\0\0\0\0" REAL_ONE "{00"

#endif
