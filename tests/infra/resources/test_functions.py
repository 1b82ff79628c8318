"""Rules for every function."""

import importlib.util
from pathlib import Path

from fanfold.doctor.recheck import MOMENT_SECONDS
from fanfold.settings import Settings
from tests.infra.template import Template, functions, updated_before, variables


def test_the_doctor_waits_longer_than_any_function_that_uses_edges(template: Template) -> None:
    found = functions(template)
    edges = ("api", "plan", "deliver", "relate")
    assert all(found[module]["Timeout"] < MOMENT_SECONDS for module in edges)


def test_every_handler_exists(dev: Template) -> None:
    for properties in functions(dev).values():
        name, _, attribute = properties["Handler"].rpartition(".")
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        assert f"def {attribute}(" in Path(spec.origin).read_text(encoding="utf-8")


def test_every_function_has_every_setting_in_its_environment(template: Template) -> None:
    for given in variables(template).values():
        texts = {
            name: value if isinstance(value, str) else value["Ref"] for name, value in given.items()
        }
        service = texts.pop("POWERTOOLS_SERVICE_NAME")
        assert service
        assert texts == Settings.from_env(texts).to_env()


def test_receivers_of_a_message_are_updated_before_its_senders(template: Template) -> None:
    assert updated_before(template) == {
        "api": {"plan", "relate", "timeline"},
        "timeline": set(),
        "plan": {"deliver", "relate"},
        "deliver": set(),
        "relate": set(),
        "sweep": {"plan", "deliver"},
    }
