"""A shell that starts the tests in the background makes them ignore interrupts, and so would every
program they start; the tests of signals need what a terminal gives."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
