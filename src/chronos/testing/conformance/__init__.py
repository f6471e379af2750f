"""The conformance suite of the store contract: each case is a coroutine that checks one promise on an empty store.

Run it on an engine with any test runner::

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_contract(case):
        asyncio.run(with_my_store(case))

The page ``how-to/store-engines`` of the documentation has a complete engine that passes the suite.

After each case ``verify()`` must find nothing. Cases do not depend on an engine. Tests of a single engine belong in the
folder ``tests`` of the repository.
"""

from chronos.testing.conformance.fixture import StoreFixture
from chronos.testing.conformance.suite import CASES, Case, run

__all__ = ["CASES", "Case", "StoreFixture", "run"]
