"""What the methods are that follow attention down to the input tokens."""

MEANING = {
    "raw": "raw: what attention takes from the layer below, mean over heads",
    "rollout": "rollout: shares of the input tokens, all paths down added up",
    "flow": "flow: the maximum flow to each input token, as shares of the sum",
}
