"""The tests. Asserts of the helpers are told in full, too."""

import pytest

pytest.register_assert_rewrite("tests.helpers")
