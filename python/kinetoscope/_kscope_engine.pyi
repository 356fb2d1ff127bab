import os
from collections.abc import Callable, Sequence
from typing import Any, Self, final

class TraceError(ValueError): ...

@final
class Report:
    def __new__(
        cls,
        paths: list[Any],
        *,
        stacks: list[Any] = ...,
        by_shape: bool = False,
    ) -> Self: ...
    def write(
        self,
        format: str,
        *,
        table: str | None = None,
        sort: str | None = None,
        limit: int = 0,
        width: int = 0,
    ) -> str: ...
    def query(self, sql: str, comparison: Any = None, /) -> str: ...
    def compare(self, before: Report, /) -> Any: ...
    def export(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        format: str,
        *,
        table: str | None = None,
        weight: str = "self_cpu",
    ) -> None: ...
    def html(
        self,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        comparison: Any = None,
        /,
    ) -> None: ...
    def columns(self, table: str, /) -> Any: ...
    def column_names(self, table: str, /) -> list[str]: ...
    def column(self, table: str, name: str, /) -> tuple[str, bytearray] | list[str | None]: ...
    def close(self) -> None: ...

@final
class TimedCall:
    def __new__(cls, function: Callable[..., Any], /) -> Self: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def take(self) -> tuple[int, int]: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]: ...

@final
class MemoryCurve:
    def __new__(
        cls,
        kinds: Sequence[str],
        *,
        block: int = 1,
        shares: dict[str, int] | None = None,
    ) -> Self: ...
    def change(self, kind: int, bytes: int, /) -> None: ...
    def move(self, kind: int, to: int, bytes: int, /) -> None: ...
    def restart(self) -> None: ...
    def now(self) -> dict[str, int]: ...
    def peak(self) -> dict[str, int]: ...

def kv_cache_bytes(
    *,
    layers: int,
    kv_heads: int,
    head_size: int,
    batch: int,
    tokens: int,
    element_bytes: int,
) -> int: ...
def summarize(values: Sequence[float], /) -> dict[str, float]: ...
def write_comparison(comparison: Any, format: str, *, limit: int = 0, width: int = 0) -> str: ...
def slope(x: Sequence[float], y: Sequence[float], /) -> float: ...
def advise(
    *,
    batches: float = ...,
    batch_s: float = ...,
    transform_s: float = ...,
    workers: float = ...,
    total_s: float = ...,
    device_s: float = ...,
    memory_percent: float = ...,
    gpu_free_share: float = ...,
) -> list[tuple[str, str]]: ...
