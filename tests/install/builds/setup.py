import os

from setuptools import Extension, setup

import isthmus

source = os.path.relpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "consumer", "module.cpp"))
setup(
    name="consumer",
    ext_modules=[
        Extension(
            "consumer",
            [source],
            include_dirs=[isthmus.get_include()],
            extra_compile_args=["-std=c++20", "-fvisibility=hidden"],
            language="c++",
        )
    ],
)
