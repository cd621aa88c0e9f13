"""Tables and figures of docs/benchmarks.md, made from the files of results."""
