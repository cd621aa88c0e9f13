"""Attacks: thousands of damaged inputs, each of which has to be refused or to change nothing.

A part is a function of a number of cases and a limit in seconds that returns :class:`benchmarks.attack.outcome.Counts`,
and a line in ``PARTS`` of ``__main__``. ``files`` damages models, stores and checkpoints. All parts are run by
``python -m benchmarks.attack``, some of them with ``--part``, and a case that went wrong with ``--case``.
"""
