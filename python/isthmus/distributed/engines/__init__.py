"""The engines that move tensors between processes: one file each, which registers with the engine's own hooks.

Each file has `register(cls, framework)`, which makes the engine send instances of `cls` as distributed.frameworks
describes them, and returns a function that restores the engine's own registration. `start()`, if there is one, does so
for hooks that are not tied to one type; `spread(policy)`, if there is one, is called by each enable(), and reaches
processes that come later.
"""
