"""The default fit of several classes: candidates with shared curves, chosen and stacked by validation rows."""
