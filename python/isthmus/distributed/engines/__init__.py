"""The engines that move tensors between processes: one file each, which registers with the engine's own hooks.

Each file has `register(cls, framework)`, which makes the engine send instances of `cls` as distributed.frameworks describes
them, and returns a function that puts the engine's own registration back. `start()`, where there is one, does so for what is
not of one type alone.
"""
