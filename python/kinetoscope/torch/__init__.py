"""The parts of Kinetoscope that know torch; nothing outside this folder imports it."""
