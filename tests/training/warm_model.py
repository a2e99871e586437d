"""Makes a small Qwen2 model with random weights and shows it how some tasks are played, until it is
so sure of each token that some of its rollouts earn something and others do not.

    python warm_model.py TASKS MODEL_FOLDER CHARS LOSS
"""

import json
import re
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from train_grpo import Market, World
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import get_json_schema
from trl.chat_template_utils import get_training_chat_template, qwen2_5_chat_template

from bench.suites.generated.answer import Answer

WORDS, STEPS, RATE = 1_000, 400, 2e-3
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def shown(world: World, market: Market, number: int) -> list[dict]:
    """The conversation of a task: the calls that solve it, what they answer, and the answer."""
    task = world.tasks[number]
    messages = world.prompt(task)
    market.reset(number)
    for call in task.tools:
        arguments = {"name": call.name, "arguments": call.arguments}
        function = {"name": "call_tool", "arguments": arguments}
        asked = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
        told = market.call_tool(**arguments)
        messages += [asked, {"role": "tool", "name": "call_tool", "content": told}]
    market._finish({})
    answer = Answer.model_validate_json(task.answer).text
    return [*messages, {"role": "assistant", "content": f"Answer: {answer}"}]


def tokenizer_of(texts: list[str]) -> PreTrainedTokenizerFast:
    """One whose words are long pieces of lines of these texts, so that a conversation is short."""
    made = Tokenizer(models.BPE())
    lines = pre_tokenizers.Split("\n", "isolated")
    text = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([lines, text])
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS,
        special_tokens=[*SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    end, _, end_of_turn = SPECIAL
    names = {"eos_token": end_of_turn, "pad_token": end}
    template = {"chat_template": qwen2_5_chat_template}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names, **template)


def main() -> None:
    tasks, folder, chars, enough = sys.argv[1:]
    with World.open(Path(tasks), cache_dir=Path(folder) / "cache") as world:
        market = Market(world, int(chars))
        talks = [shown(world, market, number) for number in range(len(world.tasks))]
        tools = [get_json_schema(market.call_tool)]
    plain = tokenizer_of([json.dumps(talks)])
    texts = [plain.apply_chat_template(talk, tools=tools, tokenize=False) for talk in talks]
    tokenizer = tokenizer_of([part for text in texts for part in re.split(r"<\|\w+\|>", text)])
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4_096,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForCausalLM(config)
    rows = []
    for talk in talks:
        told = tokenizer.apply_chat_template(
            talk,
            tools=tools,
            chat_template=get_training_chat_template(tokenizer),
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        ids, mask = torch.tensor(told["input_ids"]), torch.tensor(told["assistant_masks"])
        rows.append((ids[None], torch.where(mask.bool(), ids, -100)[None]))
    steps = torch.optim.AdamW(model.parameters(), RATE)
    for step in range(STEPS):
        losses = [model(input_ids=ids, labels=labels).loss for ids, labels in rows]
        loss = torch.stack(losses).mean()
        if step % 20 == 0:
            print(step, len(rows[0][0][0]), loss.item(), flush=True)
        if loss.item() < float(enough):
            break
        steps.zero_grad()
        loss.backward()
        steps.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


main()
