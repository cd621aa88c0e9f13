"""Rows beyond memory: a store of codes on disk. Needs pyarrow: ``pip install 'ahofm[scale]'``."""

from ahofm.scale.parts import StoreError
from ahofm.scale.store import CodeStore

__all__ = ["CodeStore", "StoreError"]
