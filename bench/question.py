"""What the text of a question alone tells: its language, and which question it is."""

import re
from hashlib import blake2b

_CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def language_of(question: str) -> str:
    """`zh` if there is a Chinese character in it, else `en`; empty if the question is."""
    return "zh" if _CHINESE.search(question) else "en" if question.strip() else ""


def digest_of(question: str) -> str:
    """16 hex digits, the same for questions that differ only in white space."""
    text = " ".join(question.split())
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
