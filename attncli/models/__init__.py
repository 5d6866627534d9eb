"""Networks built from `attncli.attention`, and the loading of published weights.

`loading` opens a model by name. `hub` resolves the name to a directory, and converts .gguf files (`gguf`).
`checkpoint_files` says which files a checkpoint has, and `hashes` identifies its weights. `config` reads its
config.json as a `ModelConfig`, according to its family (`families`). `weights` reads the checkpoint into a `Network`
(`network`). `rows` arranges texts, and `walk` runs them through the network. In every layer, queries meet keys in one
place (`meet` in `block`), which offers each block to taps (`taps`). `taken` collects the results of a walk. An `Engine`
(`engine`) answers requests with it: a `Model` (`model`) on our own network, a `TransformersModel`
(`transformers_engine`) on one of transformers. `transformers_peer` loads the same checkpoint in transformers for
comparison. `random` builds an architecture without its published weights.
"""
