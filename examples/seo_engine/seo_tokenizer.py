"""SEOTokenizer: pages to tokens, by a vocabulary that is learnt from the pages themselves."""

import string
from collections.abc import Iterable
from typing import Self

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BatchEncoding, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from .page_text import text_of_page

SPECIAL = {
    name: f"[{name.split('_')[0].upper()}]"
    for name in ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
}


class SEOTokenizer:
    """`source`: a folder with a saved tokenizer, or a tokenizer of transformers. Pages are cut at
    its model_max_length."""

    def __init__(self, source: str | PreTrainedTokenizerBase) -> None:
        is_path = isinstance(source, str)
        self.tokenizer = AutoTokenizer.from_pretrained(source) if is_path else source

    @classmethod
    def trained_on(cls, pages: Iterable[str], vocab_size: int, max_length: int) -> Self:
        """Learns words from pages; others are spelled. The same pages give the same tokenizer."""
        known = dict.fromkeys([*SPECIAL.values(), *_SPELLING, *_learn_words(pages, vocab_size)])
        vocabulary = {piece: number for number, piece in enumerate(list(known)[:vocab_size])}
        model = models.WordPiece(vocabulary, unk_token=SPECIAL["unk_token"])
        pieces = _make_pieces(model)
        pieces.post_processor = _make_ends(pieces)
        wrapped = PreTrainedTokenizerFast(
            tokenizer_object=pieces, model_max_length=max_length, **SPECIAL
        )
        return cls(wrapped)

    def __len__(self) -> int:
        return len(self.tokenizer)

    def tokenize_text(self, page: str) -> BatchEncoding:
        """input_ids and attention_mask of one page, tensors of [1, tokens]."""
        return self.tokenizer(text_of_page(page), truncation=True, return_tensors="pt")

    def save(self, folder: str) -> None:
        """For SEOTokenizer(folder)."""
        self.tokenizer.save_pretrained(folder)


# The first letter of a word, and one within.
_LETTERS = string.ascii_lowercase + string.digits + string.punctuation
_SPELLING = [*_LETTERS, *(f"##{letter}" for letter in _LETTERS)]


def _learn_words(pages, count):
    """Words, the most frequent first. The trainers of tokenizers that learn pieces of words break
    ties by the order of a hash table, which is another one each time; that for words does not."""
    counter = _make_pieces(models.WordLevel(unk_token=SPECIAL["unk_token"]))
    trainer = trainers.WordLevelTrainer(vocab_size=count, show_progress=False)
    counter.train_from_iterator(map(text_of_page, pages), trainer)
    vocabulary = counter.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _make_pieces(model):
    pieces = Tokenizer(model)
    pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return pieces


def _make_ends(pieces):
    begin, end = SPECIAL["cls_token"], SPECIAL["sep_token"]
    return processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        special_tokens=[(token, pieces.token_to_id(token)) for token in (begin, end)],
    )
