"""What needs Lightning; its modules are loaded when they are asked for."""

from kinetoscope._lazy import names_of

PUBLIC = {"KinetoscopeCallback": "trainer_callback"}

__getattr__, __dir__ = names_of(globals(), PUBLIC)
