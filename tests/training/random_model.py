"""Makes a Qwen2 model with random weights, the smallest that a trainer takes.

python random_model.py TOKENIZER_FOLDER MODEL_FOLDER
"""

import sys

from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

tokenizer_folder, model_folder = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
config = Qwen2Config(
    vocab_size=len(tokenizer),
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    eos_token_id=tokenizer.eos_token_id,
)
Qwen2ForCausalLM(config).save_pretrained(model_folder)
tokenizer.save_pretrained(model_folder)
