"""Read .gguf files, llama.cpp's format: convert one to a checkpoint's directory, which everything else reads.

`file` reads the format, `architectures` and `vocabulary` translate what it holds, and `conversion` writes the directory.
"""
