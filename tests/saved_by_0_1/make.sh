#!/usr/bin/env bash
# How attncli 0.1.0 (commit c9f3e11) made the files of this folder: see README.md.
attncli run -m models/minilm -l 0,3 -H 1,2 "The cat sat." --json -o record.npz >record.out
attncli run -m models/minilm -l 3 -H 1,2 "The cat sat." --neurons 3.1 -o neurons.npz
attncli explain -m models/minilm -l 3 -H 1 "The cat sat." --query cat --json >neurons.out
printf 'The cat sat.\nA dog ran to the mill.\n' |
    attncli run -m models/minilm -l 0,3 -H 1,2 -f - --json -o texts.safetensors >texts.out
attncli run -m models/minilm -l 0,3 -H 1,2 "The cat sat." --measure norm --json -o norm.npz >norm.out
attncli align --weights weights "3 March 2021" --json -o cross.npz >cross.out
attncli stats -m models/minilm corpus.txt --json >state.out
python - <<END
import json
printed = {name: json.load(open(f"{name}.out")) for name in ("record", "texts", "norm", "cross", "state")}
explained = json.load(open("neurons.out"))
printed["neurons"] = {"query": explained["query"]["q"], "key": explained["keys"][0]["k"]}
printed["state"]["heads"] = [head for head in printed["state"]["heads"] if (head["layer"], head["head"]) in [(0, 2), (3, 1)]]
json.dump(printed, open("printed.json", "w"))
END
