"""Records and results made visible, a room a medium: `terminal` (rich), `figures` (matplotlib), `page` (HTML).

The media do not know each other. What two of them share stands here: what is said (`captions`), the colours of heads
(`palette`), smaller maps (`pooling`). `showing` is how a record shows itself. Nothing here runs a model or imports
torch.
"""
