# SPDX-License-Identifier: Apache-2.0
"""The stories of `make reliability`: what is told, to which libraries, and what came of it."""
