import pytest
import rule_texts


@pytest.fixture(scope="session")
def cases(tmp_path_factory):
    """[(kind, id, code of the fix)] of all C tests of rules."""
    return rule_texts.run_cases(tmp_path_factory.mktemp("cases") / "cases")
