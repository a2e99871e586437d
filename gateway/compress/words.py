"""The words of a text in English or Chinese, for comparing it with a question."""

import re

_WORD = re.compile(r"[a-z0-9][a-z0-9.%'-]*[a-z0-9%]|[a-z0-9]|[\u4e00-\u9fff]+")
STOP = frozenset(
    _WORD.findall(
        "the of a an in on for to and or by at is are was were what which how did do does with "
        "from as that this it its be per over between during has have had will would who whom "
        "whose when where why than about there any many much 的 了 是 在 和 与 有 为 对"
    )
)


def words_of(text: str) -> list[str]:
    """The words in their order, in lower case, without those that say nothing. Chinese has no
    spaces, so of a run of characters each pair is taken for a word.
    """
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if word.isascii():
            if word not in STOP:
                found.append(word.removesuffix("'s"))
        else:
            found += [word[at : at + 2] for at in range(max(len(word) - 1, 1))]
    return found
