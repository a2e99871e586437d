"""Reads training data as TRL's trainers do, and says what a model would learn from it.

    python with_trl.py SFT_FOLDER DPO_FOLDER TOKENIZER_FOLDER

Both folders have `train.jsonl`. The tokenizer's chat template is replaced by the one that TRL has
for training. It writes JSON: the lines as `datasets` gives them, without and with declared
features; of each conversation the runs of tokens with or without loss, as text; of each pair the
texts that are compared.
"""

import json
import sys
from itertools import groupby
from pathlib import Path

from datasets import Features, Json, List, load_dataset
from transformers import AutoTokenizer
from trl.chat_template_utils import get_training_chat_template, supports_tool_calling
from trl.data_utils import apply_chat_template, is_conversational, maybe_extract_prompt

sft, dpo, tokenizer_folder = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
template = get_training_chat_template(tokenizer)
assert template is not None, "it has no marks for training of its own"
assert supports_tool_calling(tokenizer)


def loaded(folder, *columns):
    """Its lines, which must be the same whether features are inferred or declared."""
    files = {"train": str(Path(folder) / "train.jsonl")}
    declared = Features({name: List(Json()) for name in columns})
    found = [
        list(load_dataset("json", data_files=files, features=features)["train"])
        for features in (None, declared)
    ]
    assert all(is_conversational(line) for lines in found for line in lines)
    return found


def spans(line):
    """Runs of tokens with the same mask: whether they have loss, and their text."""
    tokens = tokenizer.apply_chat_template(
        line["messages"],
        tools=line["tools"],
        chat_template=template,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    masked = zip(tokens["assistant_masks"], tokens["input_ids"], strict=True)
    return [
        (bool(mask), tokenizer.decode([token for _, token in of_mask]))
        for mask, of_mask in groupby(masked, key=lambda pair: pair[0])
    ]


def compared(line):
    texts = apply_chat_template(
        maybe_extract_prompt(line), tokenizer, tools=line["tools"], chat_template=template
    )
    return [texts[name] for name in ("prompt", "chosen", "rejected")]


conversations = loaded(sft, "messages", "tools")
pairs = loaded(dpo, "prompt", "chosen", "rejected", "tools")
result = {
    "sft": conversations,
    "dpo": pairs,
    "spans": [[spans(line) for line in lines] for lines in conversations],
    "compared": [[compared(line) for line in lines] for lines in pairs],
}
sys.stdout.write(json.dumps(result))
