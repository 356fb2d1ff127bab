"""SEOPipeline: a saved engine as a pipeline of transformers, for those who only want scores."""

from typing import Any

from transformers import pipeline

from .page_text import text_of_page
from .profiling import find


class SEOPipeline:
    """`folder`: where a classifier and its tokenizer are saved (AdvancedLLMSEOEngine.save)."""

    def __init__(self, folder: str) -> None:
        self._classify = pipeline("text-classification", model=folder, tokenizer=folder)

    def analyze_text(self, page: str) -> dict[str, Any]:
        """label: what the model calls the page, HTML or plain text. score: how probable, 0 to 1."""
        region = find("profile_operation")
        if region is None:
            return self._answer(page)
        with region("analyze_text", "model_inference"):
            return self._answer(page)

    def _answer(self, page: str) -> dict[str, Any]:
        return self._classify(text_of_page(page), truncation=True)[0]
