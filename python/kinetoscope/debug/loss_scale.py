"""A GradScaler's scale: the search for one is normal, a collapse is not."""

SKIPS_MAX = 5  # in a row, after a step that was made
SKIPS_MAX_SEARCHING = 16  # from 65536 to 1
SCALE_MIN = 1.0


class LossScale:
    def __init__(self, session):
        self._session = session
        self._made = 0
        self._skips = 0
        self._skips_total = 0
        self._scale = None

    def step_ended(self, optimizer, scaler):
        if scaler is None:
            self._session.write("mixed_precision", {"scale": None})
            return
        # torch reads these in scaler.step, too, so the GPU was waited for just now.
        found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        is_skipped = any(number.item() for number in found.values())
        self._scale = scaler.get_scale()
        self._note(is_skipped)
        facts = {"scale": self._scale, "is_skipped": is_skipped}
        facts |= {"skips_in_a_row": self._skips, "skips": self._skips_total}
        self._session.latest["scale"] = self._scale
        self._session.write("mixed_precision", facts)

    def _note(self, is_skipped):
        if not is_skipped:
            self._made += 1
            self._skips = 0
            return
        self._skips += 1
        self._skips_total += 1
        most = SKIPS_MAX if self._made else SKIPS_MAX_SEARCHING
        if self._skips < most and self._scale >= SCALE_MIN:
            return
        where = self._session.latest.get("overflow")
        facts = {"cause": "loss_scale", "scale": self._scale, "skips_in_a_row": self._skips}
        facts["parameter"] = where
        text = f"the loss scale collapses: {self._skips} steps in a row were left out, the scale is"
        text += f" {self._scale:g}; gradients overflow first in {where or 'a place not looked for'}"
        self._session.incident("mixed_precision", "collapse", facts, text)
