"""Puts a function around a method of one instance, and takes it off again. What the instance had
as its own, in place of the method of its class, is called and put back."""

import copy


def cover(owner, name, around):
    """owner.name(...) is around(owner, method, ...) from now on; `method` is what it was."""
    vars(owner)[name] = Covered(owner, name, around, vars(owner).get(name))


def uncover(owner, name):
    """Undoes the last cover(); nothing where there is none."""
    covered = vars(owner).get(name)
    if not isinstance(covered, Covered):
        return
    if covered.own is None:
        del vars(owner)[name]
    else:
        vars(owner)[name] = covered.own


class Covered:
    """`own`: what the instance had as its own, or None. Follows its owner into a copy. Pickled it
    is what it covers: who loads that need not have this package."""

    def __init__(self, owner, name, around, own):
        self.owner = owner
        self.name = name
        self.around = around
        self.own = own

    @property
    def __wrapped__(self):
        """What inspect.signature asks: programs look which arguments a model takes."""
        if self.own is not None:
            return self.own
        return getattr(type(self.owner), self.name).__get__(self.owner)

    def __call__(self, *args, **kwargs):
        return self.around(self.owner, self.__wrapped__, *args, **kwargs)

    def __deepcopy__(self, memo):
        owner, own = copy.deepcopy((self.owner, self.own), memo)
        return Covered(owner, self.name, self.around, own)

    def __reduce__(self):
        if self.own is not None:
            return _same, (self.own,)
        # The owner has nothing of its own yet when this is loaded: its class's method is found.
        return getattr, (self.owner, self.name)


def _same(value):
    return value
