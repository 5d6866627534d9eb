"""Work on a corpus of any size: a plan of shards, an engine that makes sums of them, and a folder that keeps these.

Nothing here knows what is counted: that is handed in (`attncli.corpus.shards.work`).
"""
