"""Read .gguf files, llama.cpp's format: convert one to a checkpoint's directory, which everything else reads.

`file` reads the format. `architectures` and `vocabulary` translate its content, and `conversion` writes the directory.
"""
