"""The conformance suite of the store's contract: coroutines that take an open, empty store and check one promise each.

Run it on an engine with any test runner::

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_contract(case):
        asyncio.run(with_my_store(case))

After each case the store must still ``verify()``. No case knows which engine it runs on:
tests of one engine belong in the folder ``tests`` of the repository.
"""

from chronos.testing.conformance.fixture import StoreFixture
from chronos.testing.conformance.suite import CASES, Case, run

__all__ = ["CASES", "Case", "StoreFixture", "run"]
